package servertest

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Recorder watches one space and records every durable event that it receives. A
// received event counts as acknowledged: it must exist after any fault, unchanged and
// in the same order.
type Recorder struct {
	t      *testing.T
	s      *Server
	space  string
	client *http.Client
	stop   context.CancelFunc // closes the open connection
	Ended  chan struct{}      // closed when it has ended

	mu      sync.Mutex
	events  []Event
	seen    map[string]bool // their positions
	faults  []string
	changed chan struct{} // closed at the next event
}

func NewRecorder(t *testing.T, s *Server, space string) *Recorder {
	r := &Recorder{t: t, s: s, space: space, client: &http.Client{Transport: &http.Transport{}},
		seen: map[string]bool{}, changed: make(chan struct{})}
	r.Attach()
	t.Cleanup(func() {
		r.stop()
		<-r.Ended
		r.client.CloseIdleConnections()
		t.Logf("%d events received", len(r.list()))
	})
	return r
}

// Attach opens a connection that continues after the last event received.
func (r *Recorder) Attach() {
	ctx, stop := context.WithCancel(context.Background())
	url, ended := r.s.URL+"/v1/spaces/"+r.space+"/events", make(chan struct{})
	r.stop, r.Ended = stop, ended
	after := ""
	if n := len(r.list()); n > 0 {
		after = r.list()[n-1].Position
	}
	go func() {
		defer close(ended)
		err := Watch(ctx, r.client, url, after, func(f Frame) error { r.take(f); return nil })
		if _, refused := err.(*RefusedError); refused {
			r.Fault("the watch was refused: %v", err)
		}
	}()
}

func (r *Recorder) take(f Frame) {
	if f.ID == "" {
		return // a broadcast
	}
	e := decodeEvent(r.t, []byte(f.Data))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[f.ID] {
		r.faults = append(r.faults, "received twice: "+f.ID)
	}
	if e.Position != f.ID || e.Type != f.Event {
		r.faults = append(r.faults, fmt.Sprintf("frame %s %s holds %s", f.ID, f.Event, f.Data))
	}
	r.seen[f.ID] = true
	r.events = append(r.events, e)
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Recorder) Fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// list returns what was received so far.
func (r *Recorder) list() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[:len(r.events):len(r.events)]
}

// Await waits until n events that satisfy ok were received.
func (r *Recorder) Await(limit time.Duration, what string, n int, ok func(Event) bool) {
	r.t.Helper()
	end := time.After(limit)
	for next, found := 0, 0; ; {
		r.mu.Lock()
		events, changed := r.events, r.changed
		r.mu.Unlock()
		for ; next < len(events); next++ {
			if ok(events[next]) {
				if found++; found == n {
					return
				}
			}
		}
		select {
		case <-changed:
		case <-end:
			r.t.Fatalf("not received within %v: %s (%d of %d)\n%s", limit, what, found, n, r.s.LogTail())
		}
	}
}

// Compare checks the journal against what was received: no event is missing, changed,
// repeated or in another order, and seqs only grow, in one epoch. It returns the
// journal.
func (r *Recorder) Compare() []Event {
	r.t.Helper()
	journal := r.s.Events(r.space)
	received := r.list()
	next, epoch, last := 0, "", uint64(0)
	for _, e := range journal {
		in, n := Seq(r.t, e.Position)
		if n <= last || epoch != "" && in != epoch {
			r.t.Errorf("event %s follows %s-%d", e.Position, epoch, last)
		}
		epoch, last = in, n
		if next < len(received) && received[next].Position == e.Position {
			if received[next].Text != e.Text {
				r.t.Errorf("an acknowledged event changed:\n%s\n%s", received[next].Text, e.Text)
			}
			next++
		}
	}
	if next < len(received) {
		r.t.Errorf("acknowledged and missing: %s (%d of %d received are in the journal)", received[next].Text, next, len(received))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.faults {
		r.t.Error(f)
	}
	r.faults = nil
	return journal
}
