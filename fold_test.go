package thole_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
)

// ledger is a state whose history can be told from it.
type ledger struct {
	Count int
	Sum   int
	Last  []int
}

// ledgerFold counts in applied how many events it was given.
func ledgerFold(version int, applied *int) thole.Fold[ledger] {
	return thole.Fold[ledger]{
		Name: "ledger", Version: version, Every: 50,
		New: func() ledger { return ledger{} },
		Apply: func(l ledger, e thole.Event) (ledger, error) {
			*applied++
			var n int
			if err := e.As(&n); err != nil {
				return l, err
			}
			l.Count++
			l.Sum += n
			if l.Last = append(l.Last, n); len(l.Last) > 3 {
				l.Last = l.Last[1:]
			}
			return l, nil
		},
	}
}

// appendNumbers commits n events to stream, with others between, and returns
// the positions of its own.
func appendNumbers(t testing.TB, sp *thole.Space, stream string, from, n int) []thole.Position {
	t.Helper()
	var at []thole.Position
	for i := from; i < from+n; i++ {
		res, err := sp.Commit(context.Background(), thole.Commit{Events: []thole.Event{
			{Stream: stream, Type: "number.added", Data: fmt.Append(nil, i)},
			{Stream: "app/other", Type: "noise.made"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, res.First)
	}
	return at
}

func wantLedger(n int) ledger {
	l := ledger{Count: n}
	for i := range n {
		l.Sum += i
		if i >= n-3 {
			l.Last = append(l.Last, i)
		}
	}
	return l
}

func TestAFoldIsTheSameWithAndWithoutSnapshots(t *testing.T) {
	for _, stream := range []string{"app/ledger", strings.Repeat("long/ü", 36)} {
		sp := open(t, nil).Space("project:shop")
		const n = 1000
		at := appendNumbers(t, sp, stream, 0, n)
		applied := 0
		if got, pos, err := thole.FoldStream(t.Context(), sp, stream, ledgerFold(1, &applied), thole.Position{}); err != nil ||
			!reflect.DeepEqual(got, wantLedger(n)) || pos != at[n-1] {
			t.Fatalf("now: got %v at %v, %v", got, pos, err)
		}
		if applied != n {
			t.Errorf("first fold applied %d events, want %d", applied, n)
		}
		for range 50 {
			i := rand.IntN(n)
			applied = 0
			got, pos, err := thole.FoldStream(t.Context(), sp, stream, ledgerFold(1, &applied), at[i])
			if err != nil || !reflect.DeepEqual(got, wantLedger(i+1)) || pos != at[i] {
				t.Errorf("at %d: got %v at %v, %v", i, got, pos, err)
			}
			if applied >= 100 {
				t.Errorf("at %d: applied %d events, want fewer than twice Every", i, applied)
			}
		}
		// Between two events of the stream, the earlier one counts.
		between := at[10]
		between.Seq++
		if got, pos, err := thole.FoldStream(t.Context(), sp, stream, ledgerFold(1, &applied), between); err != nil ||
			got.Count != 11 || pos != at[10] {
			t.Errorf("between: got %v at %v, %v", got, pos, err)
		}
	}
}

func TestSnapshotsOfAnotherFoldVersionOrDamagedOnesAreIgnored(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	appendNumbers(t, sp, "app/ledger", 0, 300)
	applied := 0
	fold := func(version int) ledger {
		t.Helper()
		applied = 0
		got, _, err := thole.FoldStream(t.Context(), sp, "app/ledger", ledgerFold(version, &applied), thole.Position{})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	fold(1)
	if got := fold(2); applied != 300 || got.Count != 300 {
		t.Errorf("another version: applied %d events, want all 300", applied)
	}
	snaps, err := sp.List(t.Context(), thole.ListQuery{Prefix: "snap/ledger/1/"})
	if err != nil || len(snaps) != 6 {
		t.Fatalf("got %d snapshots, %v; want 6", len(snaps), err)
	}
	for i, bad := range []string{`"x"`, `{"position":"","state":{}}`, `{"position":"0001deadbeef-0000000000000004","state":{}}`, `{"state":"x"}`} {
		var c thole.Commit
		for _, r := range snaps {
			c.Writes = append(c.Writes, thole.Write{Key: r.Key, Value: json.RawMessage(bad)})
		}
		if _, err := sp.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got := fold(1); !reflect.DeepEqual(got, wantLedger(300)) || applied != 300 {
			t.Errorf("damage %d: got %v after %d events", i, got, applied)
		}
	}
}

func TestLargeStatesAreNotStoredMoreOftenThanTheirEvents(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	const n = 2000
	appendNumbers(t, sp, "app/list", 0, n)
	all := thole.Fold[[]int]{Name: "all", Every: 10, New: func() []int { return nil },
		Apply: func(s []int, e thole.Event) ([]int, error) {
			var n int
			err := e.As(&n)
			return append(s, n), err
		}}
	got, _, err := thole.FoldStream(t.Context(), sp, "app/list", all, thole.Position{})
	if err != nil || len(got) != n {
		t.Fatalf("got %d numbers, %v; want %d", len(got), err, n)
	}
	size := 0
	for r, err := range sp.Records(t.Context(), "snap/") {
		if err != nil {
			t.Fatal(err)
		}
		size += len(r.Value)
	}
	if limit := n * 40; size == 0 || size > limit {
		t.Errorf("snapshots take %d bytes, want 1…%d", size, limit)
	}
}

func TestAFoldReportsWhatItCannotDo(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	applied := 0
	if got, pos, err := thole.FoldStream(t.Context(), sp, "app/ledger", ledgerFold(1, &applied), thole.Position{}); err != nil || got.Count != 0 || !pos.IsZero() {
		t.Errorf("no space: got %v at %v, %v; want a new state", got, pos, err)
	}
	at := appendNumbers(t, sp, "app/ledger", 0, 3)
	beyond := at[2]
	beyond.Seq += 10
	if _, _, err := thole.FoldStream(t.Context(), sp, "app/ledger", ledgerFold(1, &applied), beyond); !errors.Is(err, thole.ErrTrimmed) {
		t.Errorf("beyond the head: got %v, want ErrTrimmed", err)
	}
	if _, _, err := thole.FoldStream(t.Context(), sp, "", ledgerFold(1, &applied), beyond); !errors.Is(err, thole.ErrInvalid) {
		t.Errorf("no stream: got %v, want ErrInvalid", err)
	}
	if _, _, err := thole.FoldStream(t.Context(), sp, "app/other", ledgerFold(1, &applied), at[2]); err != nil {
		t.Errorf("null is a number: got %v", err)
	}
	_, err := sp.Commit(t.Context(), thole.Commit{Events: []thole.Event{{Stream: "app/ledger", Type: "number.added", Data: []byte(`"x"`)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := thole.FoldStream(t.Context(), sp, "app/ledger", ledgerFold(1, &applied), thole.Position{}); !errors.Is(err, thole.ErrCorrupt) {
		t.Errorf("Apply fails: got %v, want its error", err)
	}
}

func TestRedactedEventsLeaveNoTraceInSnapshots(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	at := appendNumbers(t, sp, "app/ledger", 0, 120)
	applied := 0
	if _, _, err := thole.FoldStream(t.Context(), sp, "app/ledger", ledgerFold(1, &applied), thole.Position{}); err != nil {
		t.Fatal(err)
	}
	if err := sp.Purge(t.Context(), thole.Purge{Events: at[:1]}); err != nil {
		t.Fatal(err)
	}
	snaps, err := sp.List(t.Context(), thole.ListQuery{Prefix: "snap/"})
	if err != nil || len(snaps) != 0 {
		t.Errorf("got %d snapshots, %v; want none", len(snaps), err)
	}
}
