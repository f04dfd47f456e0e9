package journal

import (
	"errors"
	"fmt"
	"strings"
)

// The sentinel errors. Compare with errors.Is. Package journal/problem maps each to one
// HTTP status and one stable code. For what a store cannot do at all, the error is
// errors.ErrUnsupported.
var (
	ErrNotFound  = errors.New("not found")
	ErrExists    = errors.New("already exists")
	ErrConflict  = errors.New("conflict")
	ErrInvalid   = errors.New("invalid")
	ErrTooLarge  = errors.New("too large")
	ErrTrimmed   = errors.New("trimmed")
	ErrFenced    = errors.New("fenced")
	ErrDeadlock  = errors.New("deadlock")
	ErrCancelled = errors.New("cancelled")
	ErrCorrupt   = errors.New("corrupt")
	ErrClosed    = errors.New("closed")
	ErrFull      = errors.New("full") // the store's disk, quota or positions are used up; nothing was lost

	// ErrUnavailable means that the store cannot be reached now or did not answer in
	// time. A commit that returns it may have been applied: repeat it under an
	// idempotency key.
	ErrUnavailable = errors.New("unavailable")
)

// ConflictError reports a check that did not hold. It unwraps to ErrConflict.
type ConflictError struct {
	Space   string
	Check   Check    // what was wanted; if a write found an expired record, the write's key and a zero At
	Actual  Position // what was there; zero: absent
	Expired bool     // the record is an expired Notify record and must be swept first
}

func (e *ConflictError) Error() string {
	name := e.Check.Key
	if name == "" {
		name = "stream " + e.Check.Stream
	}
	if e.Expired {
		return fmt.Sprintf("%s: %s: has expired", e.Space, name)
	}
	if e.Check.At.IsZero() && e.Actual.IsZero() { // Condition.Exists
		return fmt.Sprintf("%s: %s: wanted some version, is absent", e.Space, name)
	}
	show := func(p Position) string {
		if p.IsZero() {
			return "absent"
		}
		return p.String()
	}
	return fmt.Sprintf("%s: %s: wanted %s, is %s", e.Space, name, show(e.Check.At), show(e.Actual))
}

// Unwrap returns ErrConflict.
func (e *ConflictError) Unwrap() error { return ErrConflict }

// TrimmedError reports a cursor that cannot be resumed, or, if Adopted, that something
// other than a commit changed the space. It unwraps to ErrTrimmed. Read the state again
// and continue from Last; if Adopted, from Cursor.
type TrimmedError struct {
	Space        string
	Cursor       Position
	Oldest, Last Position // what is kept
	Reason       string
	Adopted      bool // no event is missing
}

func (e *TrimmedError) Error() string {
	if e.Adopted {
		return fmt.Sprintf("%s: trimmed after %s: read the state anew: %s", e.Space, e.Cursor, e.Reason)
	}
	return fmt.Sprintf("%s: cursor %s cannot be resumed: it is %s", e.Space, e.Cursor, e.Reason)
}

// Unwrap returns ErrTrimmed.
func (e *TrimmedError) Unwrap() error { return ErrTrimmed }

// UnreachableError names the stores that did not answer a call to several. The result
// returned with it comes from the others. It unwraps to ErrUnavailable.
type UnreachableError struct{ Stores []UnreachableStore }

// UnreachableStore is a store that did not answer, and why.
type UnreachableStore struct {
	Spaces []string // patterns of the spaces that live there
	Err    error
}

func (e *UnreachableError) Error() string {
	var b strings.Builder
	for i, s := range e.Stores {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "the store of %s does not answer: %v", strings.Join(s.Spaces, ", "), s.Err)
	}
	return b.String()
}

// Unwrap returns ErrUnavailable.
func (e *UnreachableError) Unwrap() error { return ErrUnavailable }

// Patterns returns the patterns of all spaces that cannot be reached.
func (e *UnreachableError) Patterns() (all []string) {
	for _, s := range e.Stores {
		all = append(all, s.Spaces...)
	}
	return all
}

// invalidf formats an error that wraps ErrInvalid.
func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
