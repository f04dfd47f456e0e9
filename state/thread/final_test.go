package thread_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

// overtaken calls before, once, before it commits an event of the given type.
type overtaken struct {
	*memstore.Store
	typ    string
	before atomic.Pointer[func()]
}

func (o *overtaken) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	for _, c := range batch {
		if slices.ContainsFunc(c.Events, func(e thole.Event) bool { return e.Type == o.typ }) {
			if f := o.before.Swap(nil); f != nil {
				(*f)()
			}
		}
	}
	return o.Store.Commit(ctx, batch)
}

func (o *overtaken) Close() error { return nil }

// Another process writes below the thread while the commit that ends it is under way:
// the final state includes what was acknowledged.
func TestTheFinalStateTellsAllThatWasAcknowledged(t *testing.T) {
	b := &overtaken{Store: memstore.New(), typ: "thread.destroyed"}
	var spaces [2]*thole.Space
	for i := range spaces {
		s, err := thole.Open(t.Context(), b, &thole.Options{Concepts: []*thole.Concept{thread.Concept}, Sweep: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		spaces[i] = s.Space("project:shop")
	}
	th, err := thread.In(spaces[0]).Create(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	write := func() {
		key := thread.Key(th.ID)
		_, err := spaces[1].Update(t.Context(), func(tx *thole.Tx) error { // as the concepts do
			if _, err := tx.Get(key); err != nil {
				return err
			}
			tx.Put(key+"/x", "acknowledged", nil)
			tx.Emit(key, "x.changed", nil)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	b.before.Store(&write)
	if err := thread.In(spaces[0]).Destroy(t.Context(), th.ID, nil); err != nil {
		t.Fatal(err)
	}
	page, err := spaces[0].Read(t.Context(), thole.ReadQuery{Backward: true})
	if err != nil {
		t.Fatal(err)
	}
	var final string
	for _, e := range page.Events {
		if e.Type == "thread.destroyed" {
			final = string(e.Data)
		}
	}
	if !strings.Contains(final, "acknowledged") {
		t.Errorf("the final state lacks what was acknowledged before: %s", final)
	}
}

func TestAThreadWhoseEventsWereTrimmedIsDestroyed(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		th, err := thread.In(sp).Create(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := sp.Commit(t.Context(), thole.Commit{Events: []thole.Event{{Stream: "app/x", Type: "app.x"}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := sp.Purge(t.Context(), thole.Purge{Before: res.Last}); err != nil {
			t.Fatal(err)
		}
		if err := thread.In(sp).Destroy(t.Context(), th.ID, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestADestroyThatIsCalledAgainWithoutAKeyGoesOnBurying(t *testing.T) {
	b := &brittle{Store: memstore.New(), left: math.MaxInt}
	s, err := thole.Open(t.Context(), b, &thole.Options{Concepts: []*thole.Concept{thread.Concept}, Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sp := s.Space("project:shop")
	ts := thread.In(sp)
	th, err := ts.Create(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b.left = 1
	if err := ts.Destroy(t.Context(), th.ID, nil); err == nil {
		t.Fatal("the burial did not fail")
	}
	b.left = math.MaxInt
	for range 2 {
		if err := ts.Destroy(t.Context(), th.ID, nil); !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	}
	for _, prefix := range []string{"thread/", "thread-gone/"} {
		if left, err := sp.List(t.Context(), thole.ListQuery{Prefix: prefix}); err != nil || len(left) > 0 {
			t.Errorf("left of the thread: %v, %v", left, err)
		}
	}
}

// The process that destroys a thread dies before it deletes what is below.
func TestNothingIsSaidInAThreadThatHasEndedAndIsNotBuriedYet(t *testing.T) {
	b := &brittle{Store: memstore.New(), left: math.MaxInt}
	s, err := thole.Open(t.Context(), b, &thole.Options{Concepts: []*thole.Concept{thread.Concept}, Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sp := s.Space("project:shop")
	th, err := thread.In(sp).Create(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var turn, block string
	do(t, sp, func(tx *thole.Tx) (err error) {
		if turn, err = thread.BeginTurn(tx, th.ID, thole.NewID("run"), nil); err != nil {
			return err
		}
		block, err = thread.StartTool(tx, th.ID, turn, "", thread.Tool{Name: "Edit"})
		return err
	})
	b.left = 1
	if err := thread.In(sp).Destroy(t.Context(), th.ID, nil); err == nil {
		t.Fatal("the burial did not fail")
	}
	b.left = math.MaxInt
	for what, say := range map[string]func(tx *thole.Tx) error{
		"text": func(tx *thole.Tx) error {
			return thread.AppendText(tx, th.ID, thread.Delta{Turn: turn, Block: thole.NewID("blk"), Text: "late"})
		},
		"a block": func(tx *thole.Tx) error {
			_, err := thread.PutBlock(tx, th.ID, turn, thread.TextBlock("late"))
			return err
		},
		"a tool call": func(tx *thole.Tx) error {
			_, err := thread.StartTool(tx, th.ID, turn, "", thread.Tool{Name: "Edit"})
			return err
		},
		"a result": func(tx *thole.Tx) error {
			return thread.FinishTool(tx, th.ID, turn, block, thread.ToolResult{})
		},
	} {
		if _, err := sp.Update(t.Context(), say); !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", what, err)
		}
	}
}
