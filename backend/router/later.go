package router

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/thole-dev/thole/journal"
)

// later is a backend that could not be opened yet. It tries again with increasing
// pauses. Until it succeeds, calls return journal.ErrUnavailable.
type later struct {
	stop   context.CancelFunc
	tasks  sync.WaitGroup
	opened chan struct{} // closed once backend is set

	mu      sync.Mutex
	backend journal.Backend
	err     error // why it could not be opened, or journal.ErrClosed
	closed  bool
}

// The pause between two tries to open a backend begins with reopenWait and doubles up
// to maxReopenWait.
const (
	reopenWait    = time.Second
	maxReopenWait = 15 * time.Second
)

// Later returns a backend that calls open until it succeeds. err is the error of the
// first try, which the caller made. Once the backend is open, its hints and broadcasts
// start. Close ends the tries.
func Later(err error, open func(context.Context) (journal.Backend, error)) journal.Backend {
	ctx, stop := context.WithCancel(context.Background())
	l := &later{stop: stop, opened: make(chan struct{}), err: err}
	l.tasks.Go(func() { l.retry(ctx, open) })
	return l
}

func (l *later) retry(ctx context.Context, open func(context.Context) (journal.Backend, error)) {
	wait := reopenWait
	next := time.NewTimer(wait)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		b, err := open(ctx)
		if l.set(b, err) {
			return
		}
		wait = min(2*wait, maxReopenWait)
		next.Reset(wait)
	}
}

// set stores the result of a try, and reports whether it succeeded.
func (l *later) set(b journal.Backend, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.err = err
		return false
	}
	l.backend = b // Close closes it, also if Close is already waiting for this task
	if !l.closed {
		close(l.opened)
	}
	return true
}

func (l *later) get() (journal.Backend, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, journal.ErrClosed
	case l.backend == nil:
		return nil, fmt.Errorf("%w: it could not be opened yet: %w", journal.ErrUnavailable, l.err)
	}
	return l.backend, nil
}

func (l *later) Commit(ctx context.Context, batch []journal.Commit) ([]journal.Result, error) {
	b, err := l.get()
	if err != nil {
		return nil, err
	}
	return b.Commit(ctx, batch)
}

func (l *later) Get(ctx context.Context, space string, keys ...string) ([]journal.Record, error) {
	b, err := l.get()
	if err != nil {
		return nil, err
	}
	return b.Get(ctx, space, keys...)
}

func (l *later) List(ctx context.Context, space string, q journal.ListQuery) ([]journal.Record, error) {
	b, err := l.get()
	if err != nil {
		return nil, err
	}
	return b.List(ctx, space, q)
}

func (l *later) Read(ctx context.Context, space string, q journal.ReadQuery) (journal.Page, error) {
	b, err := l.get()
	if err != nil {
		return journal.Page{}, err
	}
	return b.Read(ctx, space, q)
}

func (l *later) Heads(ctx context.Context, spaces ...string) ([]journal.Head, error) {
	b, err := l.get()
	if err != nil {
		return nil, err
	}
	return b.Heads(ctx, spaces...)
}

func (l *later) Spaces(ctx context.Context, q journal.SpacesQuery) ([]string, error) {
	b, err := l.get()
	if err != nil {
		return nil, err
	}
	return b.Spaces(ctx, q)
}

func (l *later) Load(ctx context.Context, space string, c journal.Chunk) error {
	b, err := l.get()
	if err != nil {
		return err
	}
	return b.Load(ctx, space, c)
}

func (l *later) Purge(ctx context.Context, space string, p journal.Purge) error {
	b, err := l.get()
	if err != nil {
		return err
	}
	return b.Purge(ctx, space, p)
}

// Close ends the tries, and closes the backend if it was opened.
func (l *later) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	l.tasks.Wait()
	l.mu.Lock()
	b := l.backend
	l.mu.Unlock()
	if b == nil {
		return nil
	}
	return b.Close()
}

// Capabilities implements [journal.Backend]. Before the backend is open, its
// capabilities are unknown. Therefore later has all functions; they wait or do nothing
// until the backend is open, and after that if the backend lacks them. Until then the
// durability is Sync, since a backend that acknowledges nothing lowers no durability.
func (l *later) Capabilities() journal.Capabilities {
	c := journal.Capabilities{
		Durability:        journal.Sync,
		Hints:             l.hints,
		SendBroadcasts:    l.sendBroadcasts,
		ReceiveBroadcasts: l.receiveBroadcasts,
		Shards:            0, // one shard
		Shard:             nil,
		Check:             l.check,
		Stopped:           l.stopped,
		Report:            l.report,
	}
	if b, err := l.get(); err == nil {
		c.Durability = b.Capabilities().Durability
	}
	return c
}

// await waits until the backend is open and returns its capabilities, none if ctx ends
// first.
func (l *later) await(ctx context.Context) journal.Capabilities {
	select {
	case <-ctx.Done():
		return journal.Capabilities{}
	case <-l.opened:
		return l.backend.Capabilities()
	}
}

// hints calls wake("") once the backend is open, since all spaces may have changed, and
// then passes on its hints.
func (l *later) hints(ctx context.Context, wake func(space string)) error {
	c := l.await(ctx)
	if ctx.Err() == nil {
		wake("")
	}
	if c.Hints != nil {
		return c.Hints(ctx, wake)
	}
	<-ctx.Done()
	return nil
}

// sendBroadcasts drops broadcasts until the backend is open; broadcasts may get lost.
func (l *later) sendBroadcasts(ctx context.Context, list []journal.Broadcast) error {
	b, err := l.get()
	if err != nil {
		return nil
	}
	if send := b.Capabilities().SendBroadcasts; send != nil {
		return send(ctx, list)
	}
	return nil
}

func (l *later) receiveBroadcasts(ctx context.Context, hear func(journal.Broadcast)) error {
	if receive := l.await(ctx).ReceiveBroadcasts; receive != nil {
		return receive(ctx, hear)
	}
	<-ctx.Done()
	return nil
}

func (l *later) check(ctx context.Context) error {
	b, err := l.get()
	if err != nil {
		return err
	}
	if check := b.Capabilities().Check; check != nil {
		return check(ctx)
	}
	return nil
}

func (l *later) stopped(ctx context.Context) error {
	if stopped := l.await(ctx).Stopped; stopped != nil {
		return stopped(ctx)
	}
	<-ctx.Done()
	return nil
}

func (l *later) report() []string {
	b, err := l.get()
	if err != nil {
		return nil
	}
	if report := b.Capabilities().Report; report != nil {
		return report()
	}
	return nil
}
