package wire

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/journal"
)

// watch streams hints until the client disconnects or the server drains.
func (s *Server) watch(c *Call) error {
	return s.stream(c, func(ctx context.Context, put func(string, any)) error {
		return s.store.Hints(ctx, func(space string) { put(remote.EventWake, space) })
	})
}

// receive streams broadcasts until the client disconnects or the server drains.
func (s *Server) receive(c *Call) error {
	return s.stream(c, func(ctx context.Context, put func(string, any)) error {
		return s.store.ReceiveBroadcasts(ctx, func(b journal.Broadcast) { put(remote.EventBroadcast, b) })
	})
}

// stream writes what feed puts, and heartbeats in between. feed's context ends when
// the client disconnects, stops reading or loses the right to the stream, and when
// the server drains. feed calls put from one goroutine; put may block.
func (s *Server) stream(c *Call, feed func(ctx context.Context, put func(event string, v any)) error) error {
	if err := c.may("*"); err != nil {
		return err
	}
	// After the answer to a HEAD the client uses the connection for its next request.
	if c.R.Method == http.MethodHead || !strings.Contains(c.R.Header.Get("Accept"), "text/event-stream") {
		return fmt.Errorf("%w: this is an event stream; ask for it with Accept: text/event-stream", journal.ErrInvalid)
	}
	if s.opts.Draining.Err() != nil {
		return fmt.Errorf("%w: the server is going away", journal.ErrClosed)
	}
	h := c.W.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	out := &sink{rc: http.NewResponseController(c.W), w: c.W, stall: s.opts.Stall}
	if out.write([]byte(": hello\n")) != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(c.R.Context())
	defer cancel()
	defer context.AfterFunc(s.opts.Draining, cancel)()

	events := make(chan []byte)
	done := make(chan struct{})
	go func() {
		defer close(done)
		feed(ctx, func(event string, v any) {
			frame, err := remote.AppendEvent(nil, event, v)
			if err != nil {
				return
			}
			select {
			case events <- frame:
			case <-ctx.Done():
			}
		})
		cancel() // the store has closed, or ctx ended
	}()
	defer func() { cancel(); <-done }()
	beat := time.NewTicker(s.opts.Heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case frame := <-events:
			err = out.write(frame)
		case <-beat.C:
			if c.Again != nil && c.Again() != nil {
				return nil
			}
			err = out.write([]byte(": heartbeat\n"))
		}
		if err != nil {
			return nil
		}
	}
}

// sink sends each part of an answer without buffering.
type sink struct {
	rc    *http.ResponseController
	w     http.ResponseWriter
	stall time.Duration
}

func (s *sink) write(b []byte) error {
	s.rc.SetWriteDeadline(time.Now().Add(s.stall)) // best effort: not every writer has deadlines
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.rc.Flush()
}
