package statetest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

// apps returns a commit that writes two records which an application keeps for a thread.
func apps(id string) thole.Commit {
	return thole.Commit{Writes: []thole.Write{{Key: "app/" + thread.Key(id), Value: []byte("1")}, {Key: "app/" + thread.Key(id) + "/x", Value: []byte("1")}}}
}

// family makes a thread with records below it, and below it a sub-agent's thread with a
// sub-agent's thread of its own; the middle one has more records, as many as asked. The
// first thread has a waiting run, unless it has a ttl: with a run it would not expire.
// The others have a running and a waiting run each.
func family(t *testing.T, e *statetest.Env, ttl time.Duration, more int) (ids []string) {
	t.Helper()
	sp := e.Space("project:shop")
	var parent string
	for range 3 {
		th, err := thread.In(sp).Create(t.Context(), &thread.CreateOptions{Parent: parent, TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		if parent == "" {
			ttl = 0 // the sub-agents' threads do not expire by themselves
		}
		if _, err := document.Under(sp, thread.Key(th.ID), thread.Key(th.ID)).Put(t.Context(), "state", 1, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := sp.Commit(t.Context(), apps(th.ID)); err != nil {
			t.Fatal(err)
		}
		if rs := run.In(sp, nil); th.TTL == 0 {
			if _, err := rs.Start(t.Context(), th.ID, run.Request{Prompt: "go", Agent: th.ID}); err != nil {
				t.Fatal(err)
			}
			if parent != "" {
				if _, err := rs.Claim(t.Context(), &run.ClaimOptions{Agent: th.ID}); err != nil {
					t.Fatal(err)
				}
				if _, err := rs.Start(t.Context(), th.ID, run.Request{Prompt: "next"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		parent = th.ID
		ids = append(ids, th.ID)
	}
	_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
		for range more {
			tx.Put(thread.Key(ids[1])+"/x/"+thole.NewID("rec"), 1, nil)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// left lists everything in the space that belongs to threads.
func left(t *testing.T, e *statetest.Env) string {
	t.Helper()
	var keys []string
	for _, prefix := range []string{"thread/", "thread-gone/", "app/"} {
		recs, err := e.Space("project:shop").List(t.Context(), thole.ListQuery{Prefix: prefix, DueBy: time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)})
		if err == nil {
			var more []thole.Record
			more, err = e.Space("project:shop").List(t.Context(), thole.ListQuery{Prefix: prefix})
			recs = append(recs, more...)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recs {
			keys = append(keys, r.Key)
		}
	}
	return strings.Join(keys, " ")
}

// unended lists the runs that have not ended, and records that exist only until then.
func unended(t *testing.T, e *statetest.Env) string {
	t.Helper()
	var keys []string
	sp := e.Space("project:shop")
	for _, prefix := range []string{"run/", "ready/"} {
		for after := ""; ; {
			recs, err := sp.List(t.Context(), thole.ListQuery{Prefix: prefix, After: after, Limit: 200})
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range recs {
				after = rec.Key
				if id, ok := strings.CutPrefix(rec.Key, "run/"); ok && !strings.Contains(id, "/") {
					r, err := run.In(sp, nil).Peek(t.Context(), id)
					if err == nil && r.Ended() {
						continue
					}
				}
				keys = append(keys, rec.Key)
			}
			if len(recs) < 200 {
				break
			}
		}
	}
	return strings.Join(keys, " ")
}

func TestADestroyedThreadLeavesNothingWhereverTheProcessDies(t *testing.T) {
	effort.SlowUnderRace(t)
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		for _, how := range []string{"destroy", "repeated destroy", "expiry"} {
			statetest.AtEachCut(func(cut statetest.Cut) bool {
				var ttl time.Duration
				more := 1
				switch how {
				case "expiry":
					ttl = time.Minute
				case "destroy":
					more = 230 // more than one commit deletes
				}
				ids := family(t, e, ttl, more)
				died := e.DieAt(cut)
				destroy := func() error {
					ctx := thole.WithIdempotencyKey(t.Context(), ids[0], "f")
					return thread.In(e.Space("project:shop")).Destroy(ctx, ids[0], nil)
				}
				if how == "expiry" {
					thread.In(e.Space("project:shop"))
					e.Clock.Advance(time.Hour)
					_ = e.Sweep(t.Context())
				} else if err := destroy(); (err != nil) != died() {
					t.Errorf("%s %+v: got %v", how, cut, err)
				}
				dead := died()
				e.Reopen()
				thread.In(e.Space("project:shop"))
				if how == "repeated destroy" {
					if err := destroy(); err != nil {
						t.Errorf("%s %+v: again: %v", how, cut, err)
					}
				} else {
					for range 2 {
						e.Clock.Advance(10 * time.Second)
						if err := e.Sweep(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
				ts := thread.In(e.Space("project:shop"))
				if _, err := ts.Get(t.Context(), ids[0]); err == nil && how == "destroy" && cut == (statetest.Cut{Commit: 1}) {
					if err := destroy(); err != nil { // nothing had happened yet
						t.Fatal(err)
					}
				}
				run.In(e.Space("project:shop"), nil)
				for range 3 { // the workers are dead: their leases expire
					e.Clock.Advance(2 * time.Minute)
					if err := e.Sweep(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if got := left(t, e); got != "" {
					t.Fatalf("%s died at %+v: left behind: %.300s", how, cut, got)
				}
				if got := unended(t, e); got != "" {
					t.Fatalf("%s died at %+v: runs have not ended: %.300s", how, cut, got)
				}
				return dead
			})
		}
	})
}

func TestNothingIsWrittenBelowAThreadThatIsBeingDestroyed(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		owned := &thread.CreateOptions{Owner: "user:1", RunScope: thread.PerUser}
		ids := [2]string{} // the first is destroyed, the second has the owner's active run
		for i := range ids {
			th, err := thread.In(e.Space("project:shop")).Create(t.Context(), owned)
			if err != nil {
				t.Fatal(err)
			}
			ids[i] = th.ID
		}
		if _, err := run.In(e.Space("project:shop"), nil).Start(t.Context(), ids[1], run.Request{Prompt: "active"}); err != nil {
			t.Fatal(err)
		}
		var waits string
		writes := func(s *thole.Store) map[string]error {
			sp, errs := s.Space("project:shop"), map[string]error{}
			_, errs["a document"] = document.Under(sp, thread.Key(ids[0]), thread.Key(ids[0])).Put(t.Context(), "state", 1, nil)
			_, errs["a todo"] = todo.In(sp).Add(t.Context(), ids[0], todo.Todo{Content: "x"})
			_, errs["a sub-agent's thread"] = thread.In(sp).Create(t.Context(), &thread.CreateOptions{Parent: ids[0]})
			r, err := run.In(sp, nil).Start(t.Context(), ids[0], run.Request{Prompt: "waits"})
			if errs["a run"] = err; err == nil {
				waits = r.ID
			}
			return errs
		}
		// They are written after Destroy has listed what exists, and before it
		// commits.
		e.Between("thread.destroyed", func(other *thole.Store) {
			for what, err := range writes(other) {
				if err != nil {
					t.Errorf("%s before the end: %v", what, err)
				}
			}
		})
		if err := thread.In(e.Space("project:shop")).Destroy(t.Context(), ids[0], nil); err != nil {
			t.Fatal(err)
		}
		for what, err := range writes(e.Store) {
			if !errors.Is(err, thole.ErrNotFound) {
				t.Errorf("%s after the end: got %v, want ErrNotFound", what, err)
			}
		}
		for key := range strings.FieldsSeq(left(t, e)) {
			if !strings.Contains(key, ids[1]) {
				t.Errorf("left behind: %s", key)
			}
		}
		run.In(e.Space("project:shop"), nil)
		if err := e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		rec, err := e.Space("project:shop").Get(t.Context(), "run/"+waits) // the stored record: Runs.Get would end the run
		if err != nil || !strings.Contains(string(rec.Value), `"status":"cancelled"`) {
			t.Errorf("the run that waits: got %s, %v; want it cancelled", rec.Value, err)
		}
	})
}

// Each write comes alone, after Destroy has listed what exists and before it commits.
func TestTheFinalStateTellsOfEachThingThatWasWrittenBefore(t *testing.T) {
	for what, write := range map[string]func(sp *thole.Space, id string) (below string, err error){
		"a document": func(sp *thole.Space, id string) (string, error) {
			_, err := document.Under(sp, thread.Key(id), thread.Key(id)).Put(t.Context(), "state", 1, nil)
			return "state", err
		},
		"a todo": func(sp *thole.Space, id string) (string, error) {
			_, err := todo.In(sp).Add(t.Context(), id, todo.Todo{Content: "x"})
			return "todos", err
		},
		"a sub-agent's thread": func(sp *thole.Space, id string) (string, error) {
			th, err := thread.In(sp).Create(t.Context(), &thread.CreateOptions{Parent: id, Visibility: thread.Private})
			if err != nil {
				return "", err
			}
			return "child/" + th.ID, nil
		},
		"a run": func(sp *thole.Space, id string) (string, error) {
			r, err := run.In(sp, nil).Start(t.Context(), id, run.Request{Prompt: "go"})
			if err != nil {
				return "", err
			}
			return "run/" + r.ID, nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			statetest.Each(t, func(t *testing.T, e *statetest.Env) {
				th := got(thread.In(e.Space("project:shop")).Create(t.Context(), nil))(t)
				var below string
				e.Between("thread.destroyed", func(other *thole.Store) {
					var err error
					if below, err = write(other.Space("project:shop"), th.ID); err != nil {
						t.Error(err)
					}
				})
				sp := e.Space("project:shop")
				if err := thread.In(sp).Destroy(t.Context(), th.ID, nil); err != nil {
					t.Fatal(err)
				}
				page := got(sp.Read(t.Context(), thole.ReadQuery{Stream: thread.Key(th.ID), Types: []string{"thread.destroyed"}}))(t)
				if len(page.Events) != 1 || below == "" || !strings.Contains(string(page.Events[0].Data), `"`+below+`":`) {
					t.Errorf("%s was acknowledged, and the final state does not tell", below)
				}
			})
		})
	}
}
