package statetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

// forge commits raw records, as an admin of the space may.
func forge(t *testing.T, e *statetest.Env, space string, writes ...thole.Write) {
	t.Helper()
	for len(writes) > 0 {
		n := min(len(writes), thole.MaxCommitItems)
		c := thole.Commit{Space: space, Now: e.Store.Now(), Actor: "user:eve", Writes: writes[:n]}
		if res, err := e.Store.Apply(t.Context(), []thole.Commit{c}); err != nil || res[0].Conflict != nil {
			t.Fatal(res, err)
		}
		writes = writes[n:]
	}
}

// soon returns a context for calls that might never return.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// quiet returns what a sweep still finds to do in a space after two others.
func quiet(t *testing.T, e *statetest.Env, space string) {
	t.Helper()
	for i := range 2 {
		e.Clock.Advance(time.Duration(i) * 6 * time.Second) // by then everything that is left to a sweep has expired
		if err := e.Store.Sweep(soon(t)); err != nil {
			t.Errorf("sweep: %v", err)
		}
	}
	recs, err := e.Store.Backend().List(t.Context(), space, thole.ListQuery{DueBy: e.Store.Now()})
	if err != nil || len(recs) > 0 {
		t.Errorf("%d expired records are left, %v: %v", len(recs), err, recs)
	}
}

func TestThreadsThatAreBelowThemselvesAreDestroyedOnce(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		var ids []string
		var parent string
		for range 3 {
			th, err := thread.In(sp).Create(t.Context(), &thread.CreateOptions{Parent: parent})
			if err != nil {
				t.Fatal(err)
			}
			parent = th.ID
			ids = append(ids, th.ID)
		}
		for _, to := range ids { // the last is above all of them, and above itself
			forge(t, e, sp.Name(), thole.Write{Key: thread.Key(ids[2]) + "/child/" + to, Value: []byte(`{}`)})
		}
		forge(t, e, sp.Name(), thole.Write{Key: thread.Key(ids[2]) + "/child/garbage", Value: []byte(`null`)})
		if err := thread.In(sp).Destroy(soon(t), ids[1], nil); err != nil {
			t.Errorf("destroy: %v", err)
		}
		if got := left(t, e); got != "" {
			t.Errorf("left: %s", got)
		}
		quiet(t, e, sp.Name())
		for _, id := range ids {
			if got := ended(t, sp, thread.Key(id)); got != 1 {
				t.Errorf("the end of %s was emitted %d times, want once", id, got)
			}
		}
	})
}

// ended counts a thread's events that say that it was destroyed.
func ended(t *testing.T, sp *thole.Space, stream string) int {
	t.Helper()
	p, err := sp.Read(t.Context(), thole.ReadQuery{Stream: stream, Types: []string{"thread.destroyed"}})
	if err != nil {
		t.Fatal(err)
	}
	return len(p.Events)
}

func TestThreadsBelowEachOtherDeeperThanAnyMayBeEndInSeveralSweeps(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		ids := []string{thole.NewID("thrd")}
		var writes []thole.Write
		for range 3 * thread.MaxDepth {
			id := thole.NewID("thrd")
			last := ids[len(ids)-1]
			writes = append(writes, thole.Write{Key: thread.Key(last), Value: []byte(`{}`)}, thole.Write{Key: thread.Key(last) + "/child/" + id, Value: []byte(`{}`)})
			ids = append(ids, id)
		}
		forge(t, e, sp.Name(), writes...)
		if err := thread.In(sp).Destroy(soon(t), ids[0], nil); err != nil {
			t.Errorf("destroy: %v", err)
		}
		e.Clock.Advance(10 * time.Second)
		for range 4 {
			quiet(t, e, sp.Name())
		}
		if got := left(t, e); got != "" {
			t.Errorf("left: %s", got)
		}
	})
}

func TestRunsThatAreTheirOwnChildrenAreCancelledOnce(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		rs := run.In(sp, nil)
		var ids, threads []string
		for i := range 3 {
			o, req := &thread.CreateOptions{}, run.Request{Prompt: "go", Agent: fmt.Sprint("a", i)}
			if i > 0 {
				o.Parent, req.Parent = threads[i-1], ids[i-1]
			}
			th, err := thread.In(sp).Create(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			r, err := rs.Start(t.Context(), th.ID, req)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := rs.Claim(t.Context(), &run.ClaimOptions{Agent: req.Agent}); err != nil {
				t.Fatal(err)
			}
			ids, threads = append(ids, r.ID), append(threads, th.ID)
		}
		// Each is below each, and so are many that do not exist, one that cannot be
		// read and one that is not a run.
		broken := thole.NewID("run")
		writes := []thole.Write{{Key: "run/" + broken, Value: []byte(`[]`)}}
		for _, id := range ids {
			for _, child := range append(ids, broken, "garbage") {
				writes = append(writes, thole.Write{Key: "run/" + id + "/child/" + child, Value: []byte(`{}`)})
			}
		}
		for range 600 {
			writes = append(writes, thole.Write{Key: "run/" + ids[1] + "/child/" + thole.NewID("run"), Value: []byte(`{}`)})
		}
		// No program made a child of the last one.
		rec, err := sp.Get(t.Context(), "run/"+ids[2])
		if err != nil {
			t.Fatal(err)
		}
		writes = append(writes, thole.Write{Key: rec.Key, Value: append([]byte(`{"children":1,`), rec.Value[1:]...)})
		forge(t, e, sp.Name(), writes...)
		if _, err := rs.Cancel(soon(t), ids[0], run.ByUser); err != nil {
			t.Errorf("cancel: %v", err)
		}
		for i, id := range ids {
			p, err := sp.Read(t.Context(), thole.ReadQuery{Stream: thread.Key(threads[i]), Types: []string{"run.cancel_requested"}})
			if err != nil || len(p.Events) != 1 {
				t.Errorf("%s is asked to end %d times, %v; want once", id, len(p.Events), err)
			}
		}
		e.Clock.Advance(10 * time.Second)
		quiet(t, e, sp.Name())
	})
}

// A raw commit makes a slot that names runs of another queue: ending them takes them
// out of that queue, not out of the slot.
func TestRunsThatDoNotLeaveASlotEndOnce(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		rs := run.In(sp, nil)
		th, err := thread.In(sp).Create(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if _, err := rs.Start(t.Context(), th.ID, run.Request{Prompt: "go"}); err != nil {
				t.Fatal(err)
			}
		}
		rec, err := sp.Get(t.Context(), "slot/%/"+th.ID)
		if err != nil || !rec.Exists() {
			t.Fatal(rec, err)
		}
		forge(t, e, sp.Name(),
			thole.Write{Key: "slot/eve", Value: rec.Value},
			thole.Write{Key: "run/" + th.ID + "/thread-gone", Value: []byte(`{"owner":"eve","run_scope":"user"}`), Expires: e.Store.Now()},
		)
		e.Clock.Advance(time.Second)
		if err := e.Store.Sweep(soon(t)); err != nil {
			t.Errorf("sweep: %v", err)
		}
		e.Clock.Advance(10 * time.Second)
		quiet(t, e, sp.Name())
	})
}

// Notices made by a raw commit expire with Notify: only the handle of their expirer may
// touch them.
func TestNoticesThatExpireWithNotifyEnd(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		th, r := thole.NewID("thrd"), thole.NewID("run")
		for _, key := range []string{
			"thread-gone/x", "thread-gone/" + th, "thread-gone/" + r,
			"run/" + r + "/cancelling", "run/x/cancelling", "run/" + th + "/thread-gone", "run/x/thread-gone", "run/" + r + "/deadline",
		} {
			for i, value := range []string{`null`, `[]`, `{}`, `{"cause":"user","owner":"x"}`} {
				forge(t, e, fmt.Sprintf("project:%d", i), thole.Write{Key: key, Value: []byte(value), Expires: e.Store.Now().Add(-time.Second), Notify: true})
			}
		}
		for i := range 4 {
			quiet(t, e, fmt.Sprintf("project:%d", i))
		}
	})
}

// A run made by a raw commit waits in something that is not a slot: ending the run
// removes none of the kernel's records, which its maker may not touch.
func TestARunMadeOutsideRemovesNothingOfTheKernel(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		id := thole.NewID("run")
		forge(t, e, "global", thole.Write{Key: "token/tok_1", Value: []byte(`{"name":"ci"}`)})
		forge(t, e, "global",
			thole.Write{Key: "run/" + id, Value: []byte(`{"status":"queued","slot":"token/tok_1"}`)},
			thole.Write{Key: "run/" + id + "/deadline", Value: []byte(`{}`), Expires: e.Store.Now()},
		)
		if _, err := run.In(e.Space("global"), nil).Cancel(t.Context(), id, run.ByUser); !errors.Is(err, thole.ErrCorrupt) {
			t.Errorf("cancel: got %v, want ErrCorrupt", err)
		}
		quiet(t, e, "global")
		if rec, err := e.Space("global").Get(t.Context(), "token/tok_1"); err != nil || !rec.Exists() {
			t.Errorf("the token: got %v, %v", rec, err)
		}
	})
}
