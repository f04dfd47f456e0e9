package thole

import (
	"errors"
	"fmt"
)

// ReusedKeyError reports an idempotency key that was used before for a different
// request. It unwraps to ErrInvalid.
type ReusedKeyError struct{ Key string }

func (e *ReusedKeyError) Error() string {
	return fmt.Sprintf("idempotency key %q was used for a different request", e.Key)
}

// Unwrap returns ErrInvalid.
func (e *ReusedKeyError) Unwrap() error { return ErrInvalid }

// damaged returns the spaces that err reports as damaged.
func damaged(err error) (names []string) {
	var e *UnreachableError
	if !errors.As(err, &e) {
		return nil
	}
	for _, s := range e.Stores {
		if errors.Is(s.Err, ErrCorrupt) {
			names = append(names, s.Spaces...)
		}
	}
	return names
}

// reached returns nil if err is an *UnreachableError, which means that the other stores
// answered, else err.
func reached(err error) error {
	if errors.As(err, new(*UnreachableError)) {
		return nil
	}
	return err
}

// invalidf formats an error that wraps ErrInvalid.
func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
