package rest

import (
	"context"
	"errors"
	"sync"

	"github.com/thole-dev/thole"
)

// feed is the source of a stream's deliveries: the watch of one space or of several.
type feed interface {
	// next waits for deliveries and returns some of one source. The slice is valid
	// until the next call.
	next(ctx context.Context) (batch []*thole.Delivery, source int, err error)
	cursor() string // the position after the last delivery
	close()
}

// single is a feed of one space.
type single struct{ w *thole.Watch }

func (f single) next(ctx context.Context) ([]*thole.Delivery, int, error) {
	batch, err := f.w.Next(ctx)
	return batch, 0, err
}

func (f single) cursor() string { return f.w.Position().String() }
func (f single) close()         { f.w.Close() }

// merged is a feed of several spaces: one goroutine waits on each.
type merged struct {
	spaces  []string
	watches []*thole.Watch
	start   []thole.Position
	in      chan handover
	taken   chan struct{} // of the last batch; closed once its slice is no longer used
	stop    context.CancelFunc
	pumps   sync.WaitGroup
}

type handover struct {
	batch  []*thole.Delivery
	source int
	err    error
	taken  chan struct{}
}

func newMerged(ctx context.Context, spaces []string, watches []*thole.Watch) *merged {
	ctx, stop := context.WithCancel(ctx)
	m := &merged{spaces: spaces, watches: watches, in: make(chan handover), stop: stop}
	for i, w := range watches {
		m.start = append(m.start, w.Position())
		m.pumps.Go(func() { m.pump(ctx, i, w) })
	}
	return m
}

func (m *merged) pump(ctx context.Context, i int, w *thole.Watch) {
	for {
		batch, err := w.Next(ctx)
		h := handover{batch: batch, source: i, err: err, taken: make(chan struct{})}
		select {
		case m.in <- h:
		case <-ctx.Done():
			return
		}
		if err != nil && !errors.Is(err, thole.ErrTrimmed) { // a trimmed watch goes on
			return
		}
		select {
		case <-h.taken:
		case <-ctx.Done():
			return
		}
	}
}

func (m *merged) next(ctx context.Context) ([]*thole.Delivery, int, error) {
	if m.taken != nil {
		close(m.taken)
		m.taken = nil
	}
	select {
	case h := <-m.in:
		m.taken = h.taken
		return h.batch, h.source, h.err
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
}

func (m *merged) cursor() string { return formatCompound(m.spaces, m.start) }

func (m *merged) close() {
	m.stop()
	m.pumps.Wait()
	for _, w := range m.watches {
		w.Close()
	}
}
