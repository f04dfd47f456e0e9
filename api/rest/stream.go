package rest

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/thole-dev/thole"
)

// Errors that end a wait for events.
var (
	errBeat     = errors.New("time for a heartbeat")
	errDraining = errors.New("the server is going away")
)

// retryAfter is how many milliseconds a client waits before it reconnects.
const retryAfter = "1000"

// stream is one open event stream.
type stream struct {
	c       *call
	rc      *http.ResponseController
	feed    feed
	keep    func(*thole.Delivery) bool // nil: everything
	privacy []*privacy                 // of each source; nil: nothing is hidden
	last    func(*thole.Event) []byte  // returns the final frame for the event that ends the stream; nil: no event does
	first   []byte                     // if not nil, the stream is this frame only
	wrote   time.Time
	checked time.Time        // when the caller was last authenticated
	spaces  []string         // names of the spaces, if there are several
	at      []thole.Position // and the last position written of each
}

// run writes the answer until the client disconnects or loses its rights, the server
// drains, the stream's last delivery is written, or the stream is trimmed. It closes
// the feed.
func (s *stream) run() error {
	defer s.feed.close()
	defer s.c.api.metrics.Watching()()
	h := s.c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	if at := s.feed.cursor(); at != "" { // "": there is no position yet
		h.Set("Thole-Position", at)
	}
	s.c.w.WriteHeader(http.StatusOK)
	s.rc = http.NewResponseController(s.c.w)

	known, forget := s.c.whileKnown(s.c.r.Context())
	defer forget()
	ctx, cancel := context.WithCancelCause(known)
	defer cancel(nil)
	defer context.AfterFunc(s.c.api.drain, func() { cancel(errDraining) })()
	s.checked = time.Now()
	err := s.write([]byte("retry: " + retryAfter + "\n"))
	if s.first != nil && err == nil {
		return s.write(s.first)
	}
	for err == nil {
		err = s.deliver(ctx)
	}
	switch {
	case errors.As(err, new(*writeError)) && errors.Is(err, os.ErrDeadlineExceeded): // net/http ends the request's context for it
		s.c.api.metrics.Dropped()
		s.c.api.log.Info("dropped a watcher that does not read", "request", s.c.id, "after", s.c.api.opts.Stall)
		panic(http.ErrAbortHandler) // the client reads nothing, so no error either
	case errors.Is(err, errEnd), s.c.r.Context().Err() != nil:
		return nil
	case errors.As(err, new(*writeError)):
		panic(http.ErrAbortHandler)
	case errors.Is(err, errDraining), errors.Is(err, thole.ErrClosed):
		s.write([]byte(": the server is going away; come back\n"))
		return nil
	}
	// The status has been sent: send the problem as an event, then end.
	p := problemOf(err, s.c.maskProblem)
	p.RequestID = s.c.id
	if p.Status >= http.StatusInternalServerError {
		s.c.api.log.Error("an event stream ended", "request", s.c.id, "error", err)
	}
	s.write(eventFrame("error", p))
	return nil
}

// errEnd ends a stream whose last delivery was written.
var errEnd = errors.New("the stream is complete")

// deliver writes deliveries until the next heartbeat is due, then the heartbeat.
func (s *stream) deliver(ctx context.Context) error {
	beat := s.c.api.opts.Heartbeat
	wait, cancel := context.WithTimeoutCause(ctx, beat-time.Since(s.wrote), errBeat)
	defer cancel()
	for ctx.Err() == nil {
		batch, source, err := s.feed.next(wait)
		switch {
		case err == nil:
			if err = s.check(); err == nil {
				err = s.writeBatch(batch, source)
			}
			if err != nil {
				return err
			}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case s.last != nil && adopted(err): // the final event will still come
		case !errors.Is(err, errBeat):
			return err
		}
		if time.Since(s.wrote) >= beat {
			return s.heartbeat()
		}
		if wait.Err() != nil {
			return nil // something was written meanwhile, so the next heartbeat is due later
		}
	}
	return context.Cause(ctx)
}

// adopted reports whether err says that a watch was trimmed but missed no event.
func adopted(err error) bool {
	var t *thole.TrimmedError
	return errors.As(err, &t) && t.Adopted
}

// heartbeat writes a comment, which keeps proxies from closing the connection.
func (s *stream) heartbeat() error {
	if err := s.check(); err != nil {
		return err
	}
	return s.write([]byte(": heartbeat\n"))
}

// check authenticates the caller again if the last time was a heartbeat ago or more,
// even on a busy stream, so that a revoked or expired token stops working.
func (s *stream) check() error {
	if s.c.token == nil || time.Since(s.checked) < s.c.api.opts.Heartbeat {
		return nil
	}
	s.checked = time.Now()
	if err := s.c.identify(); err != nil {
		return err
	}
	for _, p := range s.privacy {
		p.forget()
	}
	if s.c.space == nil {
		return nil
	}
	return s.c.enterWithFences()
}

// writeBatch sends deliveries of one space in one write.
func (s *stream) writeBatch(batch []*thole.Delivery, source int) error {
	if len(batch) == 1 && s.keep == nil && s.last == nil && s.spaces == nil && s.privacy[0] == nil {
		s.c.api.metrics.Delivered(1)
		return s.write(batch[0].Encoded(s.c.api, s.c.api.encode))
	}
	buf, _ := s.c.api.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	defer s.c.api.buffers.Put(buf)
	out, n, end := (*buf)[:0], 0, false
	s.privacy[source].before(batch)
	for _, d := range batch {
		if s.keep != nil && !s.keep(d) || s.privacy[source].hides(&d.Event) {
			continue
		}
		f := d.Encoded(s.c.api, s.c.api.encode)
		e, masked := s.privacy[source].maskEvent(&d.Event)
		if masked {
			f = s.c.api.frameEvent(&e, d.IsBroadcast())
		}
		if s.spaces != nil {
			if !d.IsBroadcast() {
				s.at[source] = d.Position
			}
			f = frameOf(s.spaces[source], formatCompound(s.spaces, s.at), f)
		}
		out, n = append(out, f...), n+1
		if s.last != nil && !d.IsBroadcast() {
			if final := s.last(&e); final != nil {
				out, end = append(out, final...), true
				break
			}
		}
	}
	if cap(out) <= 1<<20 { // do not keep the buffer of a huge batch
		*buf = out
	}
	if n == 0 {
		return nil
	}
	s.c.api.metrics.Delivered(n)
	if err := s.write(out); err != nil {
		return err
	}
	if end {
		return errEnd
	}
	return nil
}

// write sends b without buffering, in parts of up to 1 MiB. It fails if the client
// does not read a part within Options.Stall. No other client waits for this one.
func (s *stream) write(b []byte) error {
	for part := range slices.Chunk(b, 1<<20) {
		s.wrote = time.Now()
		s.rc.SetWriteDeadline(s.wrote.Add(s.c.api.opts.Stall)) // best effort: not every writer has deadlines
		if _, err := s.c.w.Write(part); err != nil {
			return &writeError{err}
		}
	}
	if err := s.rc.Flush(); err != nil {
		return &writeError{err}
	}
	return nil
}

// writeError reports a failed write to the client.
type writeError struct{ err error }

func (e *writeError) Error() string { return "write to watcher: " + e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }
