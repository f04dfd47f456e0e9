package run_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// shared is a slot of an owner's threads: in one of them others write too, the other is
// known only to the owner.
type shared struct {
	*bench
	owner, other  *run.Runs
	open, private string
}

func eachShared(t *testing.T, promise func(s *shared)) {
	t.Helper()
	each(t, func(b *bench) {
		owner := b.sp.As("user:42")
		s := &shared{bench: b, owner: run.In(owner, nil), other: run.In(b.sp.As("user:7"), nil)}
		for visibility, id := range map[string]*string{thread.ForSpace: &s.open, thread.Private: &s.private} {
			th, err := thread.In(owner).Create(b.t.Context(), &thread.CreateOptions{Visibility: visibility, RunScope: thread.PerUser, Assistant: "coder"})
			if err != nil {
				b.t.Fatal(err)
			}
			*id = th.ID
		}
		s.t = b.t
		promise(s)
	})
}

func (s *shared) mustStart(rs *run.Runs, in string, req run.Request) string {
	s.t.Helper()
	req.Prompt = "x"
	r, err := rs.Start(s.t.Context(), in, req)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.ID
}

// line returns the ids of the waiting runs.
func (s *shared) line() []string {
	s.t.Helper()
	queue, err := s.owner.Queue(s.t.Context(), s.private)
	if err != nil {
		s.t.Fatal(err)
	}
	ids := make([]string, len(queue))
	for i, r := range queue {
		ids[i] = r.ID
	}
	return ids
}

func TestOthersDoNotKeepTheOwnerOutOfItsRuns(t *testing.T) {
	eachShared(t, func(s *shared) {
		var others []string
		for {
			r, err := s.other.Start(s.t.Context(), s.open, run.Request{Prompt: "x"})
			if errors.Is(err, thole.ErrTooLarge) {
				break
			}
			if err != nil {
				s.t.Fatal(err)
			}
			if others = append(others, r.ID); len(others) > 40 {
				s.t.Fatalf("others have %d runs in the owner's line", len(others))
			}
		}
		if len(others) != 17 {
			s.t.Errorf("others got %d runs in, want the active one and 16", len(others))
		}
		// No worker has claimed the first. The owner's run is next at once, even if
		// it asks not to wait.
		first := s.mustStart(s.owner, s.private, run.Request{Policy: run.Reject})
		second := s.mustStart(s.owner, s.open, run.Request{})
		if got, want := s.line(), append([]string{first, second}, others...); !slices.Equal(got, want) {
			s.t.Errorf("the line is %v, want %v", got, want)
		}
		for _, id := range []string{first, second, others[0], others[1]} {
			h := s.claim()
			if h.ID() != id {
				s.t.Fatalf("claimed %s, want %s", h.ID(), id)
			}
			s.finish(h)
		}
		// A run that a worker has claimed is not disturbed; the owner's run is next.
		h := s.claim()
		third := s.mustStart(s.owner, s.private, run.Request{})
		if _, err := s.owner.Start(s.t.Context(), s.private, run.Request{Prompt: "x", Policy: run.Reject}); !errors.Is(err, thole.ErrConflict) {
			s.t.Errorf("reject while another's run is worked on: got %v, want ErrConflict", err)
		}
		if got := s.line(); h.ID() != others[2] || got[0] != third {
			s.t.Errorf("behind %s waits %s; want %s behind %s", h.ID(), got[0], third, others[2])
		}
		s.finish(h)
		s.finish(s.claim())
		// The owner removes each of them from the queue.
		for _, id := range others[3:] {
			if _, err := s.owner.Cancel(s.t.Context(), id, run.ByUser); err != nil {
				s.t.Errorf("cancel another actor's run: %v", err)
			}
		}
		if got := s.line(); len(got) != 0 {
			s.t.Errorf("after that %v wait", got)
		}
	})
}

func TestAnInterruptByOthersDoesNotOvertakeTheOwner(t *testing.T) {
	eachShared(t, func(s *shared) {
		active := s.mustStart(s.owner, s.open, run.Request{})
		waiting := s.mustStart(s.owner, s.private, run.Request{})
		last := s.mustStart(s.other, s.open, run.Request{})
		next := s.mustStart(s.other, s.open, run.Request{Policy: run.Interrupt})
		s.status(active, run.Cancelled)
		if got, want := s.line(), []string{waiting, next, last}; !slices.Equal(got, want) {
			s.t.Errorf("the line is %v, want %v", got, want)
		}
	})
}

func TestRunsOfOthersEndWithTheirThread(t *testing.T) {
	eachShared(t, func(s *shared) {
		s.mustStart(s.owner, s.private, run.Request{})
		h := s.claim()
		waiting := s.mustStart(s.other, s.open, run.Request{})
		if err := s.ts.Destroy(s.t.Context(), s.open, nil); err != nil {
			s.t.Fatal(err)
		}
		if err := s.e.Store.Sweep(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		s.status(waiting, run.Cancelled)
		s.finish(h)
		if got := s.line(); len(got) != 0 {
			s.t.Errorf("%v wait", got)
		}
	})
}

func TestAQueueOfAnEarlierVersionGoesOn(t *testing.T) {
	eachShared(t, func(s *shared) {
		var ids []string
		for range 2 {
			ids = append(ids, s.mustStart(s.other, s.open, run.Request{}))
		}
		ids = append(ids, s.mustStart(s.other, s.open, run.Request{}))
		if _, err := s.sp.Update(s.t.Context(), func(tx *thole.Tx) error {
			recs, err := tx.List(thole.ListQuery{Prefix: "slot/"})
			if err != nil || len(recs) != 1 {
				s.t.Fatalf("slots: %v, %v", recs, err)
			}
			tx.Put(recs[0].Key, map[string]any{"active": ids[0], "queue": ids[1:]}, nil)
			return nil
		}); err != nil {
			s.t.Fatal(err)
		}
		owners := s.mustStart(s.owner, s.private, run.Request{})
		for _, id := range []string{ids[1], ids[2], owners, ids[0]} {
			h := s.claim()
			if h.ID() != id {
				s.t.Fatalf("claimed %s, want %s of %v, %s", h.ID(), id, ids, owners)
			}
			s.finish(h)
		}
	})
}
