package statetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/all"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

// A worker dies. The sweep that ends its run comes later than the thread's ttl after that,
// because nothing ran meanwhile, or because the worker's clock was behind.
func TestALateSweepOfARunEndsNothingThatWasWrittenBefore(t *testing.T) {
	write := map[string]func(ctx context.Context, sp *thole.Space, id string) error{
		"a message": func(ctx context.Context, sp *thole.Space, id string) error {
			_, err := thread.In(sp).Append(ctx, id, thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock("are you there?")}}, nil)
			return err
		},
		"the state": func(ctx context.Context, sp *thole.Space, id string) error {
			_, err := document.Under(sp, thread.Key(id), thread.Key(id)).Put(ctx, "state", 1, nil)
			return err
		},
	}
	for _, tt := range []struct {
		when         string
		behind, dead time.Duration
	}{
		{"after an outage", 0, 2 * time.Hour},
		{"with a slow clock", 2 * time.Hour, 31 * time.Second},
	} {
		for what, write := range write {
			t.Run(what+" "+tt.when, func(t *testing.T) {
				statetest.Each(t, func(t *testing.T, e *statetest.Env) {
					ctx, sp := t.Context(), e.Space("project:shop").As("user:1")
					id := newThread(t, sp, thread.CreateOptions{TTL: time.Hour})
					_, err := run.In(sp, nil).Start(ctx, id, run.Request{Prompt: "go"})
					must(t, "start", err)
					worker := e.Second(&thole.Options{Concepts: all.Concepts(), Sweep: -1,
						Now: func() time.Time { return e.Clock.Now().Add(-tt.behind) }})
					_, err = run.In(worker.Space("project:shop"), nil).Claim(ctx, nil)
					must(t, "claim", err)
					e.Clock.Advance(tt.dead)
					must(t, "write", write(ctx, sp, id))
					for range 2 {
						must(t, "sweep", e.Sweep(ctx))
						e.Clock.Advance(time.Second)
					}
					if _, err := thread.In(sp).Get(ctx, id); err != nil {
						t.Errorf("a second after %s was written, with a ttl of an hour: %v", what, err)
					}
				})
			})
		}
	}
}

// late writes an application's records of the thread between the thread's end and its
// cleanup.
type late struct {
	journal.Backend
	id string
}

func (l *late) Commit(ctx context.Context, batch []journal.Commit) ([]journal.Result, error) {
	res, err := l.Backend.Commit(ctx, batch)
	for _, c := range batch {
		for _, w := range c.Writes {
			if l.id != "" && w.Key == thread.Key(l.id) && w.Value == nil && err == nil {
				more := journal.Commit{Space: c.Space, Now: c.Now, Writes: apps(l.id).Writes}
				l.id = ""
				if _, err := l.Backend.Commit(ctx, []journal.Commit{more}); err != nil {
					return nil, err
				}
			}
		}
	}
	return res, err
}

func TestWhatAnApplicationKeptEndsWithItsThreadThoughItWritesOnceMore(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, l := t.Context(), &late{}
		e.Wrap = func(b journal.Backend) journal.Backend { l.Backend = b; return l }
		e.Reopen()
		sp := e.Space("project:shop").As("user:1")
		id := newThread(t, sp, thread.CreateOptions{})
		_, err := sp.Commit(ctx, apps(id))
		must(t, "write", err)
		l.id = id
		must(t, "destroy", thread.In(sp).Destroy(ctx, id, nil))
		below, err := sp.List(ctx, thole.ListQuery{Prefix: "app/" + thread.Key(id) + "/", Limit: 10})
		must(t, "list", err)
		if len(below) > 0 || l.id != "" {
			t.Errorf("after the end there are %v", below)
		}
	})
}
