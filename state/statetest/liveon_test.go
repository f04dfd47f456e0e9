package statetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

// A thread's ttl counts from the last change of anything that belongs to it.
func TestAThreadLivesOnWhileSomethingIsWrittenBelowIt(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, sp := t.Context(), e.Space("project:shop").As("user:1")
		const ttl = 100 * time.Second
		for name, write := range map[string]func(id string, i int) error{
			"its state": func(id string, i int) error {
				_, err := document.Under(sp, thread.Key(id), thread.Key(id)).Put(ctx, "state", i, nil)
				return err
			},
			"its todos": func(id string, i int) error {
				_, err := todo.In(sp).Set(ctx, id, []todo.Todo{{Content: fmt.Sprint(i)}}, nil)
				return err
			},
			"an application's event": func(id string, i int) error {
				_, err := sp.Commit(ctx, thole.Commit{Events: []thole.Event{{Stream: "app/thread/" + id, Type: "a.b"}}})
				return err
			},
			"an application's record": func(id string, i int) error {
				_, err := sp.Commit(ctx, thole.Commit{Writes: []thole.Write{{Key: "app/thread/" + id + "/x", Value: []byte("1")}}})
				return err
			},
			"a message": func(id string, i int) error {
				_, err := thread.In(sp).Append(ctx, id, thread.Message{Role: "user", Blocks: []thread.Block{{Type: "text", Content: "more"}}}, nil)
				return err
			},
			"a run": func(id string, i int) error {
				_, err := run.In(sp, nil).Start(ctx, id, run.Request{Prompt: "more"})
				return err
			},
		} {
			th, err := thread.In(sp).Create(ctx, &thread.CreateOptions{TTL: ttl})
			must(t, "create", err)
			for i := range 30 {
				e.Clock.Advance(ttl / 10)
				if err := write(th.ID, i); err != nil {
					t.Fatalf("%s, for the %d. time, %v after the time before: %v", name, i+1, ttl/10, err)
				}
			}
			must(t, "sweep", e.Sweep(ctx))
			if _, err := thread.In(sp).Get(ctx, th.ID); err != nil {
				t.Errorf("%s was written just now: %v", name, err)
			}
			if name == "a run" { // a thread with an active run does not expire
				continue
			}
			e.Clock.Advance(ttl - time.Second)
			must(t, "sweep", e.Sweep(ctx))
			if _, err := thread.In(sp).Get(ctx, th.ID); err != nil {
				t.Errorf("%s was written %v ago: %v", name, ttl-time.Second, err)
			}
			e.Clock.Advance(ttl/10 + 2*time.Second)
			must(t, "sweep", e.Sweep(ctx))
			if _, err := thread.In(sp).Get(ctx, th.ID); !errors.Is(err, thole.ErrNotFound) {
				t.Errorf("%s was written more than 1.1 ttl ago: got %v, want ErrNotFound", name, err)
			}
		}
	})
}

// Of many writes in a short time, one moves the expiry.
func TestTheEndOfAThreadMovesOnceInATenthOfItsTTL(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, sp := t.Context(), e.Space("project:shop").As("user:1")
		th, err := thread.In(sp).Create(ctx, &thread.CreateOptions{TTL: 100 * time.Second})
		must(t, "create", err)
		versions := map[thole.Position]bool{}
		for i := range 50 {
			e.Clock.Advance(100 * time.Millisecond)
			_, err := document.Under(sp, thread.Key(th.ID), thread.Key(th.ID)).Put(ctx, "state", i, nil)
			must(t, "put", err)
			head, err := thread.In(sp).Get(ctx, th.ID)
			must(t, "get", err)
			versions[head.Version] = true
		}
		if len(versions) != 1 {
			t.Errorf("the head had %d versions in 5 s, want 1", len(versions))
		}
	})
}

// under lists what may be written below a thread, and below a thing that an application
// declared.
var under = map[string]struct {
	owner string // "thread" or "thing"
	write func(ctx context.Context, sp *thole.Space, id string) error
	there func(ctx context.Context, sp *thole.Space, id string) error
}{
	"a message": {"thread", func(ctx context.Context, sp *thole.Space, id string) error {
		_, err := thread.In(sp).Append(ctx, id, thread.Message{Role: "user", Blocks: []thread.Block{{Type: "text", Content: "more"}}}, nil)
		return err
	}, event("thread/")},
	"todos": {"thread", func(ctx context.Context, sp *thole.Space, id string) error {
		_, err := todo.In(sp).Set(ctx, id, []todo.Todo{{Content: "more"}}, nil)
		return err
	}, func(ctx context.Context, sp *thole.Space, id string) error {
		l, err := todo.In(sp).List(ctx, id)
		if err == nil && len(l.Todos) == 0 {
			err = thole.ErrNotFound
		}
		return err
	}},
	"a document": {"thread", func(ctx context.Context, sp *thole.Space, id string) error {
		_, err := document.Under(sp, thread.Key(id), thread.Key(id)).Put(ctx, "state", 1, nil)
		return err
	}, func(ctx context.Context, sp *thole.Space, id string) error {
		_, err := document.Under(sp, thread.Key(id), thread.Key(id)).Get(ctx, "state", nil)
		return err
	}},
	"an application's record of a thread": {"thread", put("app/thread/"), record("app/thread/")},
	"an application's event of a thread":  {"thread", emit("app/thread/"), event("app/thread/")},
	"a record":                            {"thing", put("thing/"), record("thing/")},
	"an event":                            {"thing", emit("thing/"), event("thing/")},
	"an application's record":             {"thing", put("app/thing/"), record("app/thing/")},
	"an application's event":              {"thing", emit("app/thing/"), event("app/thing/")},
	"an update that saw the owner": {"thing", func(ctx context.Context, sp *thole.Space, id string) error {
		_, err := sp.Update(ctx, func(tx *thole.Tx) error {
			_, err := tx.Get("thing/" + id)
			tx.Put("thing/"+id+"/x", 1, nil)
			return err
		})
		return err
	}, record("thing/")},
}

func put(kind string) func(context.Context, *thole.Space, string) error {
	return func(ctx context.Context, sp *thole.Space, id string) error {
		_, err := sp.Commit(ctx, thole.Commit{Writes: []thole.Write{{Key: kind + id + "/x", Value: []byte("1")}}})
		return err
	}
}

func emit(kind string) func(context.Context, *thole.Space, string) error {
	return func(ctx context.Context, sp *thole.Space, id string) error {
		_, err := sp.Commit(ctx, thole.Commit{Events: []thole.Event{{Stream: kind + id, Type: "a.b"}}})
		return err
	}
}

func record(kind string) func(context.Context, *thole.Space, string) error {
	return func(ctx context.Context, sp *thole.Space, id string) error {
		rec, err := sp.Get(ctx, kind+id+"/x")
		if err == nil && !rec.Exists() {
			err = thole.ErrNotFound
		}
		return err
	}
}

func event(kind string) func(context.Context, *thole.Space, string) error {
	return func(ctx context.Context, sp *thole.Space, id string) error {
		page, err := sp.Read(ctx, thole.ReadQuery{Stream: kind + id})
		if err == nil && len(page.Events) == 0 {
			err = thole.ErrNotFound
		}
		return err
	}
}

// What was acknowledged can be read for as long as the ttl says, together with what it
// belongs to, wherever the process that wrote it died.
func TestWhatWasAcknowledgedLivesOnOverACrash(t *testing.T) {
	const ttl = 100 * time.Second
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx := t.Context()
		e.Concepts = []*thole.Concept{{Name: "thing", Records: []thole.RecordType{
			{Key: "thing/{thing}", Expire: thole.TellExpired, LivesOn: func(thole.Record) time.Duration { return ttl }},
		}}}
		e.Reopen()
		space := func() *thole.Space { return e.Space("project:shop").As("user:1") }
		n := 0
		for name, u := range under {
			statetest.AtEachCut(func(cut statetest.Cut) bool {
				n++
				id := fmt.Sprint(n)
				if u.owner == "thread" {
					th, err := thread.In(space()).Create(ctx, &thread.CreateOptions{TTL: ttl})
					must(t, "create", err)
					id = th.ID
				} else {
					_, err := space().Update(ctx, func(tx *thole.Tx) error {
						tx.Put("thing/"+id, 1, &thole.WriteOptions{Expires: tx.Now().Add(ttl), Notify: true})
						return nil
					})
					must(t, "put", err)
				}
				e.Clock.Advance(ttl - time.Second)
				died := e.DieAt(cut)
				acknowledged := u.write(ctx, space(), id)
				e.Reopen()
				sp := space()
				e.Clock.Advance(ttl - 2*time.Second)
				must(t, "sweep", e.Sweep(ctx))
				if acknowledged == nil {
					if rec, err := sp.Get(ctx, u.owner+"/"+id); err != nil || !rec.Exists() {
						t.Errorf("%s, cut at %+v: its %s is gone (%v)", name, cut, u.owner, err)
					}
					if err := u.there(ctx, sp, id); err != nil {
						t.Errorf("%s, cut at %+v: it was acknowledged and is gone: %v", name, cut, err)
					}
				}
				e.Clock.Advance(ttl)
				must(t, "sweep", e.Sweep(ctx))
				return died()
			})
		}
	})
}
