package backendtest

import (
	"context"
	"time"

	"github.com/thole-dev/thole"
)

func watchCases() []testCase {
	return []testCase{
		{"watch/ends with its context and returns nil", watchEnds},
		{"watch/a hint comes after the commit can be read", watchHints},
		{"second/two instances share one journal", secondShares},
		{"second/two instances lose no update", secondCounter},
	}
}

// second opens another instance on the same data.
func (e *env) second() thole.Backend {
	e.Helper()
	other := e.harness.Second(e)
	e.Cleanup(func() { other.Close() })
	return other
}

// patience bounds how long a hint may take before a test gives up on it.
const patience = 10 * time.Second

func watchEnds(e *env) {
	w, ok := e.harness.Backend.(thole.Watcher)
	if !ok {
		e.absent = true
		return
	}
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Watch(ctx, func(string) {}) }()
	e.must(event("s", "s.made"))
	cancel()
	select {
	case err := <-done:
		e.ok(err == nil, "watch: got %v, want nil", err)
	case <-time.After(patience):
		e.need(false, "watch goes on after its context ended")
	}
}

func watchHints(e *env) {
	w, ok := e.harness.Backend.(thole.Watcher)
	if !ok || e.harness.Second == nil {
		e.absent = true
		return
	}
	other := e.second()
	ctx, cancel := context.WithCancel(e.ctx)
	hints := make(chan string, 100)
	done := make(chan error, 1)
	go func() {
		done <- w.Watch(ctx, func(space string) {
			select {
			case hints <- space:
			default:
			}
		})
	}()
	// A hint may be lost, so commits go on until one arrives.
	tick, timeout := time.NewTicker(50*time.Millisecond), time.After(patience)
	defer tick.Stop()
	second := &tracker{Backend: other, history: e.b.history}
	for hinted := false; !hinted; {
		select {
		case name := <-hints:
			e.ok(name == "" || name == space, "hint: got %q, want %q or all", name, space)
			hinted = e.head(space).Last.Seq > 0
		case <-tick.C:
			_, err := second.Commit(e.ctx, []thole.Commit{commitOf(event("s", "s.made"))})
			e.need(err == nil, "commit of the second instance: %v", err)
		case <-timeout:
			e.need(false, "no hint within %v", patience)
		}
	}
	cancel()
	e.ok(<-done == nil, "watch: got an error, want nil")
}

func secondShares(e *env) {
	if e.harness.Second == nil {
		e.absent = true
		return
	}
	other := e.second()
	both := []*tracker{e.b, {Backend: other, history: e.b.history}}
	var want []thole.Event
	at := thole.Position{}
	for i := range 20 {
		e.b = both[i%2]
		c := commitOf(thole.Check{Stream: "s", At: at}, thole.Check{Key: "k", At: at}, event("s", "s.made"), set("k", `1`))
		r := e.mustCommit(c)
		want, at = append(want, eventsOf(c, r)...), r.Last
		for _, b := range both {
			e.b = b
			e.equal("journal", e.readAll(space, thole.ReadQuery{}), want)
			e.equal("record", e.get(space, "k"), recordsOf(c, r))
			e.conflict(thole.Check{Stream: "s"}, event("s", "s.made"))
		}
	}
	e.b = both[1]
	e.purge(space, thole.Purge{Streams: []string{"s"}})
	e.b = both[0]
	e.must(thole.Check{Stream: "s"}, event("s", "s.made"))
	e.purge(space, thole.Purge{All: true})
	e.b = both[1]
	e.equal("first of the new space", e.must(thole.Check{Key: "k"}, set("k", `1`)).Last.Seq, uint64(1))
	e.b = both[0]
}

func secondCounter(e *env) {
	if e.harness.Second == nil {
		e.absent = true
		return
	}
	other := e.second()
	both := []thole.Backend{e.b, &tracker{Backend: other, history: e.b.history}}
	const workers, each = 6, 10
	e.parallel(workers, func(i int) error {
		for range each {
			if err := increment(e.ctx, both[i%2], "counter"); err != nil {
				return err
			}
		}
		return nil
	})
	e.equal("events", len(e.readAll(space, thole.ReadQuery{Stream: "counter"})), workers*each)
	e.equal("counter", string(e.get(space, "counter")[0].Value), "60")
}
