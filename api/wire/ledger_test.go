package wire

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/thole-dev/thole/journal"
)

// entered asks for an outcome that must exist.
func entered(t *testing.T, l *ledger, n number, first bool) *outcome {
	t.Helper()
	o, got, err := l.enter("", n, digest{}, false)
	if err != nil || got != first {
		t.Fatalf("%+v: first %v, %v; want %v", n, got, err, first)
	}
	return o
}

func TestAnOutcomeIsKeptUntilItsClientHasIt(t *testing.T) {
	l := newLedger(time.Now)
	o := entered(t, l, number{"a", 1, 1}, true)
	entered(t, l, number{"b", 1, 1}, true) // another client's
	o.set([]byte("done"), nil)
	if again := entered(t, l, number{"a", 1, 1}, false); string(again.body) != "done" {
		t.Errorf("got %q, want the first outcome", again.body)
	}
	entered(t, l, number{"a", 3, 1}, true)
	entered(t, l, number{"a", 2, 1}, true)
	entered(t, l, number{"a", 4, 3}, true) // 1 and 2 are finished
	for n := range uint64(2) {
		if _, _, err := l.enter("", number{"a", n + 1, 1}, digest{}, false); !errors.Is(err, journal.ErrConflict) {
			t.Errorf("a late copy of %d: got %v, want ErrConflict", n+1, err)
		}
	}
	entered(t, l, number{"a", 3, 1}, false)
	if kept := len(l.clients[name{"", "a"}].outcomes); kept != 2 {
		t.Errorf("%d outcomes are kept, want those of 3 and 4", kept)
	}
}

func TestASilentClientIsForgottenOnlyWhenItTriesNoMore(t *testing.T) {
	now := time.Unix(0, 0)
	l := newLedger(func() time.Time { return now })
	entered(t, l, number{"a", 1, 1}, true)
	now = now.Add(keepClient)
	entered(t, l, number{"b", 1, 1}, true)
	entered(t, l, number{"a", 1, 1}, false)
	now = now.Add(keepClient + time.Second)
	entered(t, l, number{"c", 1, 1}, true)
	if len(l.clients) != 1 {
		t.Errorf("%d clients are known, want the one that asks", len(l.clients))
	}
}

func TestTheNumberOfClientsIsBounded(t *testing.T) {
	l := newLedger(time.Now)
	for i := range maxClients {
		entered(t, l, number{fmt.Sprint(i), 1, 1}, true)
	}
	if _, _, err := l.enter("", number{"one more", 1, 1}, digest{}, false); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("one client more: got %v, want ErrUnavailable", err)
	}
	entered(t, l, number{"7", 2, 2}, true)
}

// A caller's changes are its own, whatever their numbers: another caller neither blocks
// them nor gets their outcome.
func TestTheChangesOfOneCallerAreNobodyElses(t *testing.T) {
	l := newLedger(time.Now)
	ours, theirs := digest{1}, digest{2}
	if _, first, err := l.enter("eve", number{"a", 1, 1}, theirs, false); !first || err != nil {
		t.Fatalf("first %v, %v", first, err)
	}
	if _, first, err := l.enter("us", number{"a", 1, 1}, ours, false); !first || err != nil {
		t.Errorf("the same number of another caller: first %v, %v; want a change of its own", first, err)
	}
	if _, _, err := l.enter("us", number{"a", 1, 1}, theirs, false); !errors.Is(err, journal.ErrInvalid) {
		t.Errorf("another request under the number: got %v, want ErrInvalid", err)
	}
	for i := range maxClients {
		l.enter("eve", number{fmt.Sprint(i), 1, 1}, theirs, false)
	}
	if _, _, err := l.enter("us", number{"b", 1, 1}, ours, false); err != nil {
		t.Errorf("after another caller has too many clients: %v", err)
	}
	for n := range uint64(maxUnfinished) {
		l.enter("us", number{"b", n + 1, 1}, ours, false)
	}
	if _, _, err := l.enter("us", number{"b", maxUnfinished + 1, 1}, ours, false); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("one change more that is not finished: got %v, want ErrUnavailable", err)
	}
}

func TestWhileDrainingOnlyKnownChangesAreAnswered(t *testing.T) {
	l := newLedger(time.Now)
	entered(t, l, number{"a", 1, 1}, true)
	if _, first, err := l.enter("", number{"a", 1, 1}, digest{}, true); err != nil || first {
		t.Errorf("a known change: %v, %v", first, err)
	}
	for _, n := range []number{{"a", 2, 2}, {"b", 1, 1}} {
		if _, _, err := l.enter("", n, digest{}, true); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("%+v: got %v, want ErrClosed", n, err)
		}
	}
}

func FuzzParseNumber(f *testing.F) {
	for _, s := range []string{"0123456789abcdef 7 3", "", "a 0 0", "a 1 2", "a -1 0", "a b c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := parseNumber(s)
		if err == nil && (n.client == "" || len(n.client) > 32*4 || n.n == 0 || n.finished > n.n) {
			t.Errorf("%q: got %+v", s, n)
		}
		if err != nil && !errors.Is(err, journal.ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", s, err)
		}
	})
}
