package backendtest

import (
	"context"
	"sync"
	"time"

	"github.com/thole-dev/thole/journal"
)

func watchCases() []testCase {
	return []testCase{
		{"watch/ends with its context and returns nil", watchEnds},
		{"watch/a hint comes after the commit can be read", watchHints},
		{"watch/goes on until its context ends", watchGoesOn},
		{"watch/leaves no goroutine after close", watchLeaves},
	}
}

// patience is how long a test waits for something before it fails.
const patience = 10 * time.Second

// running is a call of Hints that a case started.
type running struct {
	*env
	b      *tracker
	cancel context.CancelFunc
	news   chan struct{} // seen has changed
	done   chan struct{} // closed when it has returned
	err    error         // what it returned, once done

	mu   sync.Mutex
	seen uint64 // newest seq of the usual space that could be read at a hint
}

// watch starts Hints, which ends with the case at the latest.
func (e *env) watch() *running {
	ctx, cancel := context.WithCancel(e.ctx)
	e.Cleanup(cancel)
	w := &running{env: e, b: e.b, cancel: cancel, news: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.err = e.harness.Backend.Capabilities().Hints(ctx, func(name string) { w.wake(ctx, name) })
	}()
	return w
}

// wake reads the space at once: a commit must be readable when its hint arrives.
func (w *running) wake(ctx context.Context, name string) {
	if name != "" && name != space {
		return // a hint about something else
	}
	heads, err := w.b.Heads(ctx, space)
	if err != nil {
		return
	}
	w.mu.Lock()
	w.seen = max(w.seen, heads[0].Last.Seq)
	w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// sees waits until seq could be read at a hint.
func (w *running) sees(seq uint64, wait time.Duration) bool {
	timeout := time.After(wait)
	for {
		w.mu.Lock()
		seen := w.seen
		w.mu.Unlock()
		if seen >= seq {
			return true
		}
		select {
		case <-w.news:
		case <-w.done:
			return false
		case <-timeout:
			return false
		}
	}
}

// hears commits through another instance until a hint about it arrives. Hints may be
// lost, so it commits several times, and waits longer after each commit.
func (w *running) hears(other journal.Backend) {
	w.Helper()
	giveUp := time.Now().Add(w.patience)
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		results, err := other.Commit(w.ctx, []journal.Commit{commitOf(event("s", "s.made"))})
		w.need(err == nil, "commit of the second instance: %v", err)
		if w.sees(results[0].Last.Seq, wait) {
			return
		}
		w.runs()
		w.need(time.Now().Before(giveUp), "no hint at which the commit could be read within %v", w.patience)
	}
}

// runs fails if Hints has returned.
func (w *running) runs() {
	w.Helper()
	select {
	case <-w.done:
		w.need(false, "watch: it returned %v before its context ended", w.err)
	default:
		w.ok(true, "")
	}
}

// ends cancels the context and waits for Hints to return.
func (w *running) ends() {
	w.Helper()
	w.cancel()
	select {
	case <-w.done:
		w.ok(w.err == nil, "watch: got %v, want nil", w.err)
	case <-time.After(w.patience):
		w.need(false, "watch goes on after its context ended")
	}
}

func watchEnds(e *env) {
	if e.lacks(Hints) {
		return
	}
	w := e.watch()
	e.must(event("s", "s.made"))
	select { // give it time to end wrongly
	case <-w.done:
	case <-time.After(50 * time.Millisecond):
	}
	w.runs()
	w.ends()
	e.watch().ends() // also right after its start
}

func watchHints(e *env) {
	if e.lacks(Hints, Seconds) {
		return
	}
	other, w := e.second(), e.watch()
	w.hears(other)
	w.ends()
}

func watchGoesOn(e *env) {
	if e.lacks(Hints, Seconds) {
		return
	}
	other, w := e.second(), e.watch()
	for range 5 {
		w.hears(other)
		e.must(event("s", "s.made"))
	}
	w.runs()
	w.ends()
}

func watchLeaves(e *env) {
	if e.lacks(Hints) {
		return
	}
	e.leavesNothing(func() {
		w := e.watch()
		e.must(event("s", "s.made"))
		w.ends()
	})
}
