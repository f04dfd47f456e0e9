package agent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
)

// pausing is a backend that pauses the process that has just planned a decision.
type pausing struct {
	journal.Backend
	once    sync.Once
	planned chan struct{} // closed when the first plan is stored
	goOn    chan struct{}
}

func (p *pausing) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	results, err := p.Backend.Commit(ctx, batch)
	for _, c := range batch {
		for _, e := range c.Events {
			if e.Type == decision.TypePlanned {
				p.once.Do(func() {
					close(p.planned)
					<-p.goOn
				})
			}
		}
	}
	return results, err
}

// A worker is paused between its plan and its edit. Another one decides the outcome
// from the file as it is. That must stay true when the first one continues.
func TestALateWorkerChangesNoFileWhoseOutcomeIsDecided(t *testing.T) {
	statetest.Each(t, func(t *testing.T, s *statetest.Env) {
		p := &pausing{planned: make(chan struct{}), goOn: make(chan struct{})}
		s.Wrap = func(b journal.Backend) journal.Backend { p.Backend = b; return p }
		s.Reopen()
		e := newEnv(t, s, nil)
		e.write("poem.txt", poem)
		a := e.agent("turns:"+readAndEdit("Edit it", "one", "ONE"), nil)
		wait := e.background(a, t.Context(), "Edit it")
		<-p.planned

		sp := s.Beside().Space("project:button").As("user:42") // another process
		runs := run.In(sp, nil)
		s.Clock.Advance(time.Minute)
		page, err := runs.List(t.Context(), e.thread, nil)
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("runs %+v, %v; want one", page.Items, err)
		}
		old, err := runs.Get(t.Context(), page.Items[0].ID) // this ends it: its lease has expired
		if err != nil || old.Status != run.Crashed {
			t.Fatalf("run %+v, %v; want a crashed one", old, err)
		}
		if left, err := a.Reconcile(t.Context(), sp, old.ID); err != nil || len(left) != 0 {
			t.Fatalf("left open %+v, %v; want that the change was not made", left, err)
		}
		close(p.goOn)
		if _, err := wait(); err == nil {
			t.Error("the late worker's run ended well")
		}
		if got := e.file("poem.txt"); got != poem {
			t.Errorf("the late worker changed the file after its decision was settled as not done:\n%s", got)
		}
	})
}

// An error that comes after the new content is in place does not undo it.
func TestAnEditThatTookPlaceIsNotCalledFailed(t *testing.T) {
	statetest.Each(t, func(t *testing.T, s *statetest.Env) {
		var e *env
		e = newEnv(t, s, &sandbox.Options{AfterRename: func(string) {
			// Before the verification somebody removes the copy that was put aside.
			work, err := filepath.Glob(filepath.Join(e.dir, ".thole-*"))
			if err != nil || len(work) != 1 {
				t.Fatalf("work files %v, %v; want one", work, err)
			}
			if err := os.Remove(work[0]); err != nil {
				t.Fatal(err)
			}
		}})
		e.write("poem.txt", poem)
		e.ask(e.agent("turns:"+readAndEdit("Edit it", "one", "ONE"), nil), "Edit it", run.Succeeded)
		applied := strings.Contains(e.file("poem.txt"), "ONE")
		page, err := decision.In(e.sp).List(t.Context(), nil)
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("decisions %+v, %v; want one", page.Items, err)
		}
		if d := page.Items[0]; applied && d.Status == decision.Failed {
			t.Errorf("the change is in the file, and its decision is %s: %s", d.Status, d.Result)
		}
		if changes := e.events("file.changed"); applied && len(changes) != 1 {
			t.Errorf("%d file.changed events, want one", len(changes))
		}
	})
}

// The file that a dead worker was going to change is in that worker's directory, and
// only there can its content be checked.
func TestAnEditIsSettledByAWorkerOfItsOwnDirectoryOnly(t *testing.T) {
	statetest.Each(t, func(t *testing.T, s *statetest.Env) {
		var e *env
		e = newEnv(t, s, &sandbox.Options{AfterRename: func(string) { e.Close() }})
		e.write("poem.txt", poem)
		a := e.agent("turns:"+readAndEdit("Edit it", "one", "ONE"), nil)
		e.crash(a, "Edit it")
		old := e.restart()
		changed := e.file("poem.txt")
		if !strings.Contains(changed, "ONE") {
			t.Fatalf("the crash came before the edit:\n%s", changed)
		}

		dir, project := e.dir, e.sandbox
		other, err := sandbox.Open(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { other.Close() })
		e.dir, e.sandbox = other.Dir(), other
		e.write("poem.txt", poem) // as before the edit
		stranger := e.agent("turns:"+readAndEdit("Edit it", "one", "ONE"), nil)
		if left, err := stranger.Reconcile(t.Context(), e.sp, old.ID); err != nil || len(left) != 1 || left[0].Status != decision.Planned {
			t.Errorf("a worker in another directory left open %+v, %v; want the edit, planned", left, err)
		}
		if changes := e.events("file.changed"); len(changes) != 0 {
			t.Errorf("%d file.changed events by one that does not have the file", len(changes))
		}

		e.dir, e.sandbox = dir, project
		again, err := sandbox.Open(dir, nil) // as the next start of that worker's program would
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { again.Close() })
		e.sandbox = again
		own := e.agent("turns:"+readAndEdit("Edit it", "one", "ONE"), nil)
		if left, err := own.Reconcile(t.Context(), e.sp, old.ID); err != nil || len(left) != 0 {
			t.Errorf("a worker in the directory left open %+v, %v; want nothing", left, err)
		}
		page, err := decision.In(e.sp).List(t.Context(), nil)
		if err != nil || len(page.Items) != 1 || page.Items[0].Status != decision.Done {
			t.Errorf("decisions %+v, %v; want one that is done", page.Items, err)
		}
	})
}

// While the store does not answer, the lease cannot be renewed. After its end, another
// worker may have the run, so the command must end.
func TestACommandEndsWithTheLeaseOfARunWhoseStoreIsAway(t *testing.T) {
	statetest.Each(t, func(t *testing.T, s *statetest.Env) {
		m := s.Mortal()
		e := newEnv(t, s, nil)
		a := e.agent("turns:\n  - prompt: Wait\n    steps:\n      - tool_calls: [{name: Bash, input: {command: 'touch started.txt; sleep 300'}}]\n",
			func(o *Options) { o.Runs = &run.Options{Lease: 4 * time.Second, Heartbeat: 200 * time.Millisecond} }) // long enough for a busy machine
		wait := e.background(a, context.Background(), "Wait")
		until(t, "the command", func() bool { return e.exists("started.txt") })
		m.DieAt(statetest.Cut{Commit: 1})
		if _, err := wait(); err == nil {
			t.Error("the run ended well without a store")
		}
		e.Reopen()
	})
}
