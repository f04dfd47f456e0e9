package agent

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
)

// thieving is a backend with which a worker's lease is lost just before it records a
// certain event.
type thieving struct {
	journal.Backend
	before string // type of the event that it records
	once   sync.Once
	steal  func()
}

func (b *thieving) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	for _, c := range batch {
		for _, e := range c.Events {
			if e.Type == b.before {
				b.once.Do(b.steal)
			}
		}
	}
	return b.Backend.Commit(ctx, batch)
}

// The act took place, and its worker finds out that it has lost the run when it wants
// to record that. Its outcome is recorded all the same: nobody calls the act undone, or
// repeats it.
func TestTheOutcomeOfAnActIsKeptAlthoughTheLeaseWasLostMeanwhile(t *testing.T) {
	for name, c := range crashCases {
		if name == "Read" { // it makes no decision
			continue
		}
		t.Run(name, func(t *testing.T) {
			statetest.Each(t, func(t *testing.T, s *statetest.Env) {
				e, other, old := robbed(t, s, decision.TypeResolved, c.script())
				e.wantOutcomes(strings.Contains(name, "fails") || strings.Contains(name, "command"))

				told := &recording{Model: e.script(c.script())}
				again := e.agent(c.script(), func(o *Options) { o.Models = map[string]model.Model{"script": told} })
				if r, err := again.Resume(t.Context(), other, old.ID); err != nil || r.Status != run.Succeeded {
					t.Fatalf("resumed run %+v: %v", r, err)
				}
				if got := c.count(e); got != 1 {
					t.Errorf("the effect happened %d times; the model was told:\n%s", got, told.asked())
				}
			})
		})
	}
}

// The same, but before the worker could emit the event for the screens: whoever decides
// the outcome emits it.
func TestAChangeWhoseWorkerLostItsRunIsToldOnce(t *testing.T) {
	for _, name := range []string{"Write", "Edit"} {
		c := crashCases[name]
		t.Run(name, func(t *testing.T) {
			statetest.Each(t, func(t *testing.T, s *statetest.Env) {
				e, other, old := robbed(t, s, file.TypeChanged, c.script())
				left, err := e.agent(c.script(), nil).Reconcile(t.Context(), other, old.ID)
				if err != nil || len(left) != 0 {
					t.Errorf("left open %+v, %v; want nothing", left, err)
				}
				e.wantOutcomes(false)
				if changes := e.events(file.TypeChanged); len(changes) != 1 {
					t.Errorf("%d file.changed events, want one", len(changes))
				}
			})
		})
	}
}

// robbed runs the script until the worker has lost its run, just before it records an
// event of the given type. It returns the position of that, another process's handle on
// the space, and the run.
func robbed(t *testing.T, s *statetest.Env, before, script string) (e *env, other *thole.Space, old *run.Run) {
	t.Helper()
	b := &thieving{before: before}
	s.Wrap = func(under journal.Backend) journal.Backend { b.Backend = under; return b }
	s.Reopen()
	e = newEnv(t, s, nil)
	e.write("poem.txt", poem)
	other = e.Beside().Space("project:button").As("user:42")
	b.steal = func() {
		e.Clock.Advance(time.Minute)
		runs := run.In(other, nil)
		page, err := runs.List(e.t.Context(), e.thread, nil)
		if err == nil {
			old, err = runs.Get(e.t.Context(), page.Items[0].ID) // this ends it: its lease has expired
		}
		if err != nil || old.Status != run.Crashed {
			e.t.Errorf("run %+v, %v; want it crashed", old, err)
		}
	}
	if _, err := e.agent(script, nil).Run(e.t.Context(), e.sp, e.thread, Request{Prompt: "Go ahead"}); err == nil {
		e.t.Fatal("the worker that lost its run ended well")
	}
	if old == nil {
		e.t.Fatal("the worker never came so far")
	}
	return e, other, old
}

// wantOutcomes checks that the first decision with an outcome says how the act ended,
// and that no decision about an act that was carried out says otherwise.
func (e *env) wantOutcomes(fails bool) {
	e.t.Helper()
	list, err := decision.In(e.sp).List(e.t.Context(), nil)
	if err != nil {
		e.t.Fatal(err)
	}
	known := false
	want := decision.Done
	if fails {
		want = decision.Failed
	}
	for _, d := range list.Items {
		var o outcome
		_ = json.Unmarshal(d.Result, &o) // of one without an outcome
		if o.Again {
			e.t.Errorf("%s is called not done: %s", d.Action, d.Result)
		}
		known = known || d.Status == want
	}
	if !known {
		e.t.Errorf("the outcome is lost: no decision is %s", want)
	}
}
