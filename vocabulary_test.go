package thole_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
)

func TestAPositionSurvivesItsTextFormAndSortsLikeIt(t *testing.T) {
	one, two := journal.NewEpoch(1), journal.NewEpoch(2)
	ps := []thole.Position{{}, {Epoch: one, Seq: 0}, {Epoch: one, Seq: 9}, {Epoch: one, Seq: 10}, {Epoch: one, Seq: journal.MaxSeq}, {Epoch: two, Seq: 1}}
	for i, p := range ps {
		got, err := thole.ParsePosition(p.String())
		if err != nil || got != p {
			t.Errorf("%q: got %v, %v", p.String(), got, err)
		}
		data, err := json.Marshal(p)
		var back thole.Position
		if err != nil || json.Unmarshal(data, &back) != nil || back != p {
			t.Errorf("%v: as JSON %s, back %v, %v", p, data, back, err)
		}
		for j, q := range ps {
			if got, text := p.Compare(q), strings.Compare(p.String(), q.String()); got != text || (i < j) != (got < 0) {
				t.Errorf("%v and %v: got %d, as text %d", p, q, got, text)
			}
		}
	}
	for _, bad := range []string{"x", one, one + "-1", strings.ToUpper("0001abcdefab") + "-0000000000000001", one + "-00000000000000x1", one + "-9999999999999999", "00x1deadbeef-0000000000000001", one + "_0000000000000001"} {
		if _, err := thole.ParsePosition(bad); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", bad, err)
		}
	}
}

func TestAHeadResumesOnlyWhatItKeeps(t *testing.T) {
	one, two := journal.NewEpoch(1), journal.NewEpoch(2)
	at := func(epoch string, seq uint64) thole.Position { return thole.Position{Epoch: epoch, Seq: seq} }
	h := thole.Head{Space: "user:1", Oldest: at(one, 5), Last: at(two, 20),
		Epochs: []journal.Epoch{{Name: one, First: 1, Last: 10}, {Name: two, First: 11, Last: 20}}}
	for p, want := range map[thole.Position]bool{
		{}: true, at(one, 4): true, at(one, 10): true, at(two, 10): true, at(two, 20): true,
		at(one, 3): false, at(one, 11): false, at(two, 9): false, at(two, 21): false, at(journal.NewEpoch(3), 20): false,
	} {
		if err := h.Resume(p); (err == nil) != want || err != nil && !errors.Is(err, thole.ErrTrimmed) {
			t.Errorf("%v: got %v, want resumable: %v", p, err, want)
		}
	}
	if err := h.Trim(at(two, 21)); err != nil || h.Oldest != at(two, 21) {
		t.Errorf("trim all: got %v, oldest %v", err, h.Oldest)
	}
	if err := h.Trim(at(one, 2)); err != nil || h.Oldest != at(two, 21) {
		t.Errorf("trim what is gone: got %v, oldest %v", err, h.Oldest)
	}
	if err := h.Trim(at(two, 40)); !errors.Is(err, thole.ErrTrimmed) {
		t.Errorf("trim what is to come: got %v, want ErrTrimmed", err)
	}
}

func TestIdsSortByTimeAndAreChecked(t *testing.T) {
	var ids []string
	for range 1000 {
		id := thole.NewID("thrd")
		if err := thole.CheckID("thrd", id); err != nil || len(id) != len("thrd_")+32 {
			t.Errorf("%s: got %v", id, err)
		}
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) {
		t.Error("ids do not sort by the time they were made")
	}
	for _, bad := range []string{"", "thrd", "thrd_", "thrd_1", "thrd_zz", "run_" + strings.Repeat("a", 32),
		"thrd_" + strings.Repeat("a", 31), "thrd_" + strings.Repeat("a", 33), "thrd_" + strings.Repeat("z", 32),
		"thrd_" + strings.Repeat("A", 32), "thrd_" + strings.Repeat("a", 31) + "/", "thrd_" + strings.Repeat("a", 30) + "ü"} {
		if err := thole.CheckID("thrd", bad); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", bad, err)
		}
	}
}

func TestAQueryMatchesAllItsFields(t *testing.T) {
	sp := open(t, nil).Space("user:1").As("agent:coder")
	if got := sp.Actor(); got != "agent:coder" {
		t.Errorf("actor: got %q", got)
	}
	_, err := sp.Commit(t.Context(), thole.Commit{Events: []thole.Event{
		{Stream: "a", Type: "tool.started", Subject: "user:1", Refs: []string{"run_1"}, Schema: 2},
		{Stream: "a", Type: "tool.completed"},
		{Stream: "b", Type: "toolbox.opened"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	now := sp.Store().Now()
	for q, want := range map[*thole.ReadQuery]string{
		{Types: []string{"tool.*"}}:           "tool.started tool.completed",
		{Types: []string{"tool*"}}:            "",
		{Types: []string{"toolbox.opened"}}:   "toolbox.opened",
		{Subject: "user:1"}:                   "tool.started",
		{Actor: "agent:coder", Stream: "b"}:   "toolbox.opened",
		{Actor: "system"}:                     "",
		{Until: now.Add(-1e12)}:               "",
		{Since: now.Add(-1e12), Stream: "a"}:  "tool.started tool.completed",
		{Backward: true, Limit: 2}:            "toolbox.opened tool.completed tool.started",
		{Limit: 1, Types: []string{"tool.*"}}: "tool.started tool.completed",
	} {
		var got []string
		for e, err := range sp.Events(t.Context(), *q) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Type)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%+v: got %q, want %q", *q, got, want)
		}
	}
}

func TestAStoreSaysHowDurableItIs(t *testing.T) {
	if got := openOn(t, memstore.New(), nil).Durability(); got != journal.None {
		t.Errorf("memstore: got %q, want %q", got, journal.None)
	}
}

func TestRecordsInMemoryAreBoundedAndStillRight(t *testing.T) {
	f := &faults{Backend: memstore.New()}
	s := openOn(t, f, &thole.Options{CacheRecords: 16, Sweep: -1})
	for round := range 3 {
		for i := range 100 {
			_, err := s.Space(fmt.Sprintf("user:%d", i%7)).Update(context.Background(), func(tx *thole.Tx) error {
				var c counter
				if _, err := tx.Load(fmt.Sprint("app/", i), &c); err != nil || c.N != round {
					return fmt.Errorf("got %d, %v; want %d", c.N, err, round)
				}
				tx.Put(fmt.Sprint("app/", i), counter{round + 1}, nil)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if f.gets < 200 {
		t.Errorf("got %d reads: more was kept than allowed", f.gets)
	}
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	at := thole.Position{Epoch: "0001deadbeef", Seq: 7}
	for _, c := range []struct {
		err  error
		is   error
		want string
	}{
		{&thole.ConflictError{Space: "user:1", Check: thole.Check{Key: "k"}, Actual: at}, thole.ErrConflict, "user:1: k: wanted absent, is 0001deadbeef-0000000000000007"},
		{&thole.ConflictError{Space: "user:1", Check: thole.Check{Key: "k"}}, thole.ErrConflict, "user:1: k: wanted some version, is absent"},
		{&thole.ConflictError{Space: "user:1", Check: thole.Check{Stream: "s", At: at}}, thole.ErrConflict, "user:1: stream s: wanted 0001deadbeef-0000000000000007, is absent"},
		{&thole.ConflictError{Space: "user:1", Check: thole.Check{Key: "k"}, Expired: true}, thole.ErrConflict, "user:1: k: has expired"},
		{&thole.ReusedKeyError{Key: "k"}, thole.ErrInvalid, `idempotency key "k" was used for a different request`},
		{&thole.TrimmedError{Space: "user:1", Cursor: at, Reason: "gone"}, thole.ErrTrimmed, "user:1: cursor 0001deadbeef-0000000000000007 cannot be resumed: it is gone"},
	} {
		if got := c.err.Error(); got != c.want || !errors.Is(c.err, c.is) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
