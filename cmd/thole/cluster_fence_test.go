package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

// workSpace is where locks are taken and runs are worked on. Leases are renewed there,
// which takes positions without events.
const workSpace = "project:work"

const workPath = "/v1/spaces/" + workSpace

// fencingLog records, outside of all servers, who held which run or lock, and the
// results of their writes.
type fencingLog struct {
	mu       sync.Mutex
	holders  map[string][]string // run → tokens
	finished map[string]bool     // runs whose end was acknowledged
	writes   int                 // acknowledged writes under a token
	steps    map[string]string   // position of a step under a lock → its token
	late     int                 // writes of late holders that had not been replaced
	fenced   int                 // writes of replaced holders: all refused
}

func newFencingLog() *fencingLog {
	return &fencingLog{holders: map[string][]string{}, finished: map[string]bool{}, steps: map[string]string{}}
}

func (f *fencingLog) do(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
}

// contend takes one of a few locks again and again and writes under it. Now and then it
// sleeps for longer than the lock's time and then writes again.
func (f *fencingLog) contend(ctx context.Context, c *client) {
	for ctx.Err() == nil {
		name := fmt.Sprintf("lock%d", rand.IntN(2))
		var held struct{ Token string }
		r, err := c.Send(ctx, "POST", workPath+"/locks", map[string]any{"name": name, "owner": fmt.Sprintf("client-%d", c.id), "ttl": 1, "wait": 2, "again": true})
		if err != nil || r.Status == http.StatusConflict {
			continue // it did not get the lock in time
		}
		if r.Status != http.StatusCreated || json.Unmarshal(r.Body, &held) != nil {
			c.t.Errorf("lock %s: %d %s", name, r.Status, r.Body)
			return
		}
		late := rand.IntN(8) == 0
		if late {
			pauseFor(ctx, 1500*time.Millisecond)
		}
		for range 1 + rand.IntN(3) {
			if !f.step(c, name, held.Token, late) {
				break
			}
		}
		c.Send(context.WithoutCancel(ctx), "DELETE", workPath+"/locks/"+name, nil, "Thole-Fence", held.Token) // it may be lost already
	}
}

// pauseFor waits for d, or until ctx ends.
func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// step writes under a lock's token; it returns false if that was refused.
func (f *fencingLog) step(c *client, lock, token string, late bool) bool {
	var at struct{ First string }
	r, _ := c.Send(context.Background(), "POST", workPath+"/events",
		map[string]any{"type": "work.step", "stream": "app/" + lock, "data": map[string]string{"token": token}}, "Thole-Fence", token)
	switch {
	case r.Status == http.StatusConflict && r.Code() == "fenced":
		f.do(func() { f.fenced++ })
		return false
	case r.Status != http.StatusCreated || json.Unmarshal(r.Body, &at) != nil:
		c.t.Errorf("a write under %s: %d %s", lock, r.Status, r.Body)
		return false
	}
	f.do(func() {
		f.steps[at.First] = token
		if late {
			f.late++
		}
	})
	return true
}

// ask starts three runs at a time in a new thread until ctx ends.
func (f *fencingLog) ask(ctx context.Context, c *client) {
	for ctx.Err() == nil {
		var thread struct{ ID string }
		if _, ok := c.Must(ctx, "POST", workPath+"/threads", map[string]any{}, &thread); !ok {
			return
		}
		for n := range 3 {
			c.Must(ctx, "POST", workPath+"/threads/"+thread.ID+"/runs", map[string]any{"prompt": fmt.Sprintf("Work %d", n), "agent": "worker"}, nil)
		}
		pauseFor(ctx, 200*time.Millisecond)
	}
}

// claimed is a run that a worker has claimed.
type claimed struct {
	Run         struct{ ID, Thread string }
	Turn, Token string
}

func (r *claimed) path(rest string) string {
	return workPath + "/threads/" + r.Run.Thread + rest
}

// work claims runs and works on them until ctx ends. It leaves every tenth run, as a
// dead worker would, and returns to it much later.
func (f *fencingLog) work(ctx context.Context, c *client) {
	var ghosts []claimed
	for n := 1; ctx.Err() == nil; n++ {
		// A claim is not repeated: a worker whose answer was lost counts as dead.
		r, final, _ := c.once(ctx, "POST", "/v1/runs/claim", map[string]any{"spaces": []string{workSpace}, "agent": "worker", "wait_seconds": 1})
		if !final || r.Status == http.StatusNotFound {
			continue
		}
		var got claimed
		if err := json.Unmarshal(r.Body, &got); err != nil || r.Status != http.StatusOK {
			c.t.Errorf("claim: %d %s", r.Status, r.Body)
			return
		}
		f.do(func() { f.holders[got.Run.ID] = append(f.holders[got.Run.ID], got.Token) })
		f.write(c, &got)
		if n%10 == 0 {
			ghosts = append(ghosts, got)
			continue
		}
		f.write(c, &got)
		if _, ok := c.Must(context.WithoutCancel(ctx), "POST", got.path("/runs/"+got.Run.ID+"/finish"), map[string]any{"status": "succeeded"}, nil, "Thole-Fence", got.Token); ok {
			f.do(func() { f.finished[got.Run.ID] = true })
		}
	}
	for _, g := range ghosts {
		f.write(c, &g)
	}
}

// write adds a block to a run's turn; it may be refused as fenced, or as a
// conflict with the run's end.
func (f *fencingLog) write(c *client, r *claimed) {
	got, _ := c.Send(context.Background(), "POST", r.path("/turns/"+r.Turn+"/blocks"),
		map[string]any{"type": "text", "content": "by " + r.Token}, "Thole-Fence", r.Token)
	switch {
	case got.Status == http.StatusCreated:
		f.do(func() { f.writes++ })
	case got.Status == http.StatusConflict && slices.Contains([]string{"fenced", "conflict"}, got.Code()):
		f.do(func() { f.fenced++ })
	default:
		c.t.Errorf("a block of %s: %d %s", r.Run.ID, got.Status, got.Body)
	}
}

// compare checks the journal of the work space against the log.
func (f *fencingLog) compare(t *testing.T, journal []servertest.Event) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for run, tokens := range f.holders {
		if len(tokens) > 1 {
			t.Errorf("run %s had %d holders: %s", run, len(tokens), tokens)
		}
	}
	f.compareRuns(t, journal)
	f.compareSteps(t, journal)
}

// compareRuns checks that one run of a thread is active at a time, that each starts and
// ends once, and that it writes only in between.
func (f *fencingLog) compareRuns(t *testing.T, journal []servertest.Event) {
	t.Helper()
	started, finished := map[string]bool{}, map[string]bool{}
	active := map[string]string{} // stream → run
	for _, e := range journal {
		var d struct{ Run string }
		if !strings.HasPrefix(e.Stream, "thread/") {
			continue
		}
		if strings.HasPrefix(e.Type, "run.") {
			json.Unmarshal(e.Data, &d) // the checks below find what is wrong with it
		}
		switch {
		case e.Type == "run.started":
			if active[e.Stream] != "" || started[d.Run] {
				t.Errorf("run %s starts at %s while %q works, or again", d.Run, e.Position, active[e.Stream])
			}
			active[e.Stream], started[d.Run] = d.Run, true
		case e.Type == "run.finished" && started[d.Run]:
			if active[e.Stream] != d.Run || finished[d.Run] {
				t.Errorf("run %s ends at %s while %q works, or again", d.Run, e.Position, active[e.Stream])
			}
			active[e.Stream], finished[d.Run] = "", true
		case strings.HasPrefix(e.Cause, "run_") && e.Cause != active[e.Stream] && e.Actor == "agent:worker":
			t.Errorf("%s writes at %s while %q works: %s", e.Cause, e.Position, active[e.Stream], e.Text)
		}
	}
	for run := range f.finished {
		if !finished[run] {
			t.Errorf("the end of run %s was acknowledged and is not there", run)
		}
	}
	for run := range f.holders {
		if !started[run] {
			t.Errorf("run %s was claimed and did not start", run)
		}
	}
	t.Logf("runs: %d started, %d ended, %d claims answered, %d writes of holders", len(started), len(finished), len(f.holders), f.writes)
}

// compareSteps checks that under each lock no token writes after a later token.
func (f *fencingLog) compareSteps(t *testing.T, journal []servertest.Event) {
	t.Helper()
	last, past := map[string]string{}, map[string]bool{}
	n := 0
	for _, e := range journal {
		if e.Type != "work.step" {
			continue
		}
		n++
		var d struct{ Token string }
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Error(err)
		}
		if past[d.Token] {
			t.Errorf("at %s the holder of a lock writes that was replaced", e.Position)
		}
		if was := last[e.Stream]; was != d.Token {
			past[was], last[e.Stream] = true, d.Token
		}
		if f.steps[e.Position] != d.Token {
			t.Errorf("step %s was never acknowledged, or for another token", e.Position)
		}
	}
	if n != len(f.steps) {
		t.Errorf("%d steps were acknowledged, the journal has %d", len(f.steps), n)
	}
	t.Logf("locks: %d tokens wrote %d steps, %d of them late and not replaced; %d writes were fenced", len(past)+len(last), n, f.late, f.fenced)
}
