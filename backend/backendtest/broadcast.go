package backendtest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/thole-dev/thole/journal"
)

func broadcastCases() []testCase {
	return []testCase{
		{"broadcast/receive ends with its context and returns nil", broadcastEnds},
		{"broadcast/another instance hears a broadcast as it was sent", broadcastKeeps},
		{"broadcast/broadcasts come in the order of each sender", broadcastOrders},
		{"broadcast/a huge broadcast does not hold up those after it", broadcastHuge},
		{"broadcast/leaves no goroutine after close", broadcastLeaves},
	}
}

// hearing is a call of ReceiveBroadcasts that a case started.
type hearing struct {
	*env
	cancel context.CancelFunc
	news   chan struct{} // capacity 1: heard has grown
	done   chan struct{} // closed when it has returned
	err    error         // what it returned, once done

	mu    sync.Mutex
	heard []journal.Broadcast
}

// hear starts ReceiveBroadcasts, which ends with the case at the latest.
func (e *env) hear() *hearing {
	ctx, cancel := context.WithCancel(e.ctx)
	e.Cleanup(cancel)
	h := &hearing{env: e, cancel: cancel, news: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(h.done)
		h.err = e.harness.Backend.Capabilities().ReceiveBroadcasts(ctx, h.take)
	}()
	return h
}

func (h *hearing) take(sig journal.Broadcast) {
	h.mu.Lock()
	h.heard = append(h.heard, sig)
	h.mu.Unlock()
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// fromSecond opens another instance, to send from.
func (e *env) fromSecond() sender { return e.second().Backend.Capabilities().SendBroadcasts }

// until sends broadcasts in rounds until ok accepts what was received from their
// senders. Broadcasts may get lost, so the pauses between rounds grow. Each round has
// other senders.
func (h *hearing) until(what string, send func(round int) []journal.Broadcast, from sender, ok func(sent, heard []journal.Broadcast) bool) (sent, heard []journal.Broadcast) {
	h.Helper()
	giveUp := time.Now().Add(h.patience)
	wait := 50 * time.Millisecond
	for round := 0; ; round++ {
		sent = send(round)
		if err := from(h.ctx, sent); err != nil {
			h.Logf("send: %v", err)
		}
		for timeout := time.After(wait); timeout != nil; {
			heard = h.of(sent)
			if ok(sent, heard) {
				h.ok(true, "")
				return sent, heard
			}
			select {
			case <-h.news:
			case <-h.done:
				h.need(false, "receive: it returned %v before its context ended", h.err)
			case <-timeout:
				timeout = nil
			}
		}
		wait *= 2
		h.need(time.Now().Before(giveUp), "%s: heard %d of %d broadcasts within %v", what, len(heard), len(sent), h.patience)
	}
}

// of returns what was received from the senders of a round, in order, with the origins
// as sent: backends that pass a broadcast on add their names to its origin.
func (h *hearing) of(sent []journal.Broadcast) (heard []journal.Broadcast) {
	origins := map[string]bool{}
	for _, sig := range sent {
		origins[sig.Origin] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, sig := range h.heard {
		for origin := range origins {
			if sig.Origin == origin || strings.HasPrefix(sig.Origin, origin+" ") {
				sig.Origin = origin
				heard = append(heard, sig)
			}
		}
	}
	return heard
}

// ends cancels the context and waits for ReceiveBroadcasts to return.
func (h *hearing) ends() {
	h.Helper()
	h.cancel()
	select {
	case <-h.done:
		h.ok(h.err == nil, "receive: got %v, want nil", h.err)
	case <-time.After(h.patience):
		h.need(false, "receive goes on after its context ended")
	}
}

// broadcastOf returns a small broadcast.
func broadcastOf(origin string, n int) journal.Broadcast {
	return journal.Broadcast{Origin: origin, Space: space, Event: journal.Event{
		Stream: "s", Type: "s.progress", Time: now, Actor: "user:42", Data: fmt.Appendf(nil, `{"n":%d}`, n),
	}}
}

func all(sent, heard []journal.Broadcast) bool { return len(heard) >= len(sent) }

func broadcastEnds(e *env) {
	if e.lacks(Broadcasts) {
		return
	}
	h := e.hear()
	e.ok(e.harness.Backend.Capabilities().SendBroadcasts(e.ctx, []journal.Broadcast{broadcastOf("store_1", 1)}) == nil, "send: got an error")
	e.ok(e.harness.Backend.Capabilities().SendBroadcasts(e.ctx, nil) == nil, "send nothing: got an error")
	select { // give it time to end wrongly
	case <-h.done:
		e.need(false, "receive: it returned %v before its context ended", h.err)
	case <-time.After(50 * time.Millisecond):
	}
	h.ends()
	e.hear().ends() // also right after its start
	e.need(e.b.Close() == nil, "close: got an error")
	e.is("send after close", e.harness.Backend.Capabilities().SendBroadcasts(e.ctx, []journal.Broadcast{broadcastOf("store_1", 1)}), journal.ErrClosed)
}

func broadcastKeeps(e *env) {
	if e.lacks(Broadcasts, Seconds) {
		return
	}
	from, h := e.fromSecond(), e.hear()
	sent, heard := h.until("odd broadcasts", func(round int) []journal.Broadcast {
		var sent []journal.Broadcast
		for i, data := range []string{`null`, `"<&>\u0000'\\ é 🚣"`, `{"a":[1,2.50,{}]}`, `"` + strings.Repeat("x", 20_000) + `"`} {
			sig := broadcastOf(fmt.Sprintf("store_%d store_passed_on", round), i)
			sig.Space = []string{space, "user:42", "global", space}[i]
			sig.Event.Stream, sig.Event.Cause, sig.Event.Subject = "thread/é 🚣'\"", "run_1", "user:42"
			sig.Event.Refs, sig.Event.Schema = []string{"task_1", "file/ä b"}, i
			sig.Event.Data = []byte(data)
			sent = append(sent, sig)
		}
		return sent
	}, from, all)
	for i := range sent {
		got, want := heard[i], sent[i]
		e.equal("event", got.Event, want.Event)
		e.ok(got.Origin == want.Origin && got.Space == want.Space,
			"broadcast: got origin %q, space %q; want %q, %q", got.Origin, got.Space, want.Origin, want.Space)
	}
	h.ends()
}

func broadcastOrders(e *env) {
	if e.lacks(Broadcasts, Seconds) {
		return
	}
	from, h := e.fromSecond(), e.hear()
	const each = 100
	h.until("two senders", func(round int) (sent []journal.Broadcast) {
		for n := range each {
			sent = append(sent, broadcastOf(fmt.Sprintf("store_%d_a", round), n), broadcastOf(fmt.Sprintf("store_%d_b", round), n))
		}
		return sent
	}, from, func(sent, heard []journal.Broadcast) bool {
		next := map[string]int{}
		for _, sig := range heard {
			for next[sig.Origin] < each && !bytes.Equal(sig.Event.Data, broadcastOf("", next[sig.Origin]).Event.Data) {
				next[sig.Origin]++ // lost
			}
			e.need(next[sig.Origin] < each, "heard %s from %s after a later one, or twice", sig.Event.Data, sig.Origin)
			next[sig.Origin]++
		}
		return all(sent, heard)
	})
	h.ends()
}

// broadcastHuge sends broadcasts that are too large for a single message of some
// engines, among small ones.
func broadcastHuge(e *env) {
	if e.lacks(Broadcasts, Seconds) {
		return
	}
	from, h := e.fromSecond(), e.hear()
	huge := func(origin string) journal.Broadcast {
		sig := broadcastOf(origin, 0)
		sig.Event.Data = bytes.Repeat([]byte("x"), journal.MaxValueBytes)
		sig.Event.Data[0], sig.Event.Data[journal.MaxValueBytes-1] = '"', '"'
		return sig
	}
	h.until("broadcasts around huge ones", func(round int) []journal.Broadcast {
		origin := fmt.Sprintf("store_%d", round)
		return []journal.Broadcast{broadcastOf(origin, 1), huge(origin), broadcastOf(origin, 2), huge(origin), broadcastOf(origin, 3)}
	}, from, func(_, heard []journal.Broadcast) bool {
		small := 0
		for _, sig := range heard {
			if len(sig.Event.Data) < journal.MaxValueBytes {
				small++
			}
		}
		return small == 3
	})
	h.until("a broadcast after huge ones", func(round int) []journal.Broadcast {
		return []journal.Broadcast{broadcastOf(fmt.Sprintf("store_after_%d", round), 1)}
	}, from, all)
	h.ends()
}

func broadcastLeaves(e *env) {
	if e.lacks(Broadcasts) {
		return
	}
	e.leavesNothing(func() {
		h := e.hear()
		e.ok(e.harness.Backend.Capabilities().SendBroadcasts(e.ctx, []journal.Broadcast{broadcastOf("store_1", 1)}) == nil, "send: got an error")
		h.ends()
	})
}
