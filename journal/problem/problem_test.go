package problem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/thole-dev/thole/journal"
)

func TestEverySentinelHasACodeAndEveryCodeItsSentinel(t *testing.T) {
	codes := map[string]error{
		"not_found": journal.ErrNotFound, "exists": journal.ErrExists, "conflict": journal.ErrConflict,
		"invalid": journal.ErrInvalid, "too_large": journal.ErrTooLarge, "trimmed": journal.ErrTrimmed,
		"fenced": journal.ErrFenced, "deadlock": journal.ErrDeadlock, "cancelled": journal.ErrCancelled,
		"corrupt": journal.ErrCorrupt, "closed": journal.ErrClosed, "full": journal.ErrFull, "unavailable": journal.ErrUnavailable, "unsupported": errors.ErrUnsupported,
		"unauthorized": ErrUnauthorized, "forbidden": ErrForbidden, "rate_limited": ErrRateLimited,
	}
	for code, err := range codes {
		if got := Code(fmt.Errorf("put x: %w", err)); got != code {
			t.Errorf("Code(%v) = %s, want %s", err, got, code)
		}
		if got := Sentinel(code); !errors.Is(got, err) {
			t.Errorf("Sentinel(%s) = %v, want %v", code, got, err)
		}
	}
	if got := Code(io.ErrUnexpectedEOF); got != "internal" {
		t.Errorf("Code of an unknown error = %s, want internal", got)
	}
	if got := Sentinel("no such code"); got != nil {
		t.Errorf("Sentinel of an unknown code = %v, want nil", got)
	}
	for _, err := range []error{&journal.ConflictError{}, &journal.TrimmedError{}} {
		if Code(err) == "internal" {
			t.Errorf("%T has no code", err)
		}
	}
}

func TestEveryCodeHasOneStatus(t *testing.T) {
	statuses := map[string]int{}
	for _, k := range Kinds() {
		p := Of(fmt.Errorf("x: %w", k.Err))
		if p.Code != k.Code || p.Status != k.Status {
			t.Errorf("%v is %d %s, want %d %s as in the table", k.Err, p.Status, p.Code, k.Status, k.Code)
		}
		if had, ok := statuses[p.Code]; ok && had != p.Status {
			t.Errorf("%s is %d and %d", p.Code, had, p.Status)
		}
		statuses[p.Code] = p.Status
	}
	for err, want := range map[error]int{context.Canceled: 503, context.DeadlineExceeded: 503, journal.ErrCancelled: 409} {
		if p := Of(err); p.Status != want || statuses[p.Code] != want {
			t.Errorf("%v is %d %s, want %d", err, p.Status, p.Code, want)
		}
	}
}
