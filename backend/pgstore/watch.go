package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/thole-dev/thole/journal"
)

type notification = pgconn.Notification

// names is a set of spaces; "" stands for all spaces.
type names map[string]bool

// add adds spaces. Beyond maxTouched, the set becomes "all spaces".
func (n names) add(spaces []string) {
	for _, name := range spaces {
		if len(n) >= maxTouched && !n[name] {
			clear(n)
			name = ""
		}
		n[name] = true
	}
}

// watcher is a running call of hints. Its fields are guarded by wire.mu.
type watcher struct {
	spaces names         // that it has not reported yet
	news   chan struct{} // capacity 1: there are some
}

func (x *watcher) put(spaces []string) {
	x.spaces.add(spaces)
	ring(x.news)
}

// receiver is a running call of receiveBroadcasts. Its fields are guarded by wire.mu.
type receiver struct {
	broadcasts []journal.Broadcast
	news       chan struct{} // capacity 1: there are some
}

func (r *receiver) put(broadcasts []journal.Broadcast) {
	r.broadcasts = append(r.broadcasts, broadcasts...)
	if late := len(r.broadcasts) - maxUnheard; late > 0 {
		r.broadcasts = append([]journal.Broadcast(nil), r.broadcasts[late:]...)
	}
	ring(r.news)
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// hints calls wake with the spaces to which other processes or other Stores committed,
// "" for all spaces. It returns nil when ctx ends or the Store is closed. Without a
// direct connection it never calls wake.
func (s *Store) hints(ctx context.Context, wake func(space string)) error {
	x := &watcher{spaces: names{}, news: make(chan struct{}, 1)}
	if s.wire != nil {
		s.wire.mu.Lock()
		s.wire.watchers[x] = true
		s.wire.mu.Unlock()
		defer func() {
			s.wire.mu.Lock()
			defer s.wire.mu.Unlock()
			delete(s.wire.watchers, x)
		}()
	}
	for {
		select {
		case <-x.news:
		case <-ctx.Done():
			return nil
		case <-s.closed:
			return nil
		}
		s.wire.mu.Lock()
		spaces := x.spaces
		x.spaces = names{}
		s.wire.mu.Unlock()
		for name := range spaces {
			wake(name)
		}
	}
}

// receiveBroadcasts calls hear with the broadcasts of other processes. If hear is too
// slow, the oldest waiting broadcasts are dropped. It returns nil when ctx ends or the
// Store is closed.
func (s *Store) receiveBroadcasts(ctx context.Context, hear func(journal.Broadcast)) error {
	r := &receiver{news: make(chan struct{}, 1)}
	if s.wire != nil {
		s.wire.mu.Lock()
		s.wire.receivers[r] = true
		s.wire.mu.Unlock()
		defer func() {
			s.wire.mu.Lock()
			defer s.wire.mu.Unlock()
			delete(s.wire.receivers, r)
		}()
	}
	for {
		select {
		case <-r.news:
		case <-ctx.Done():
			return nil
		case <-s.closed:
			return nil
		}
		s.wire.mu.Lock()
		broadcasts := r.broadcasts
		r.broadcasts = nil
		s.wire.mu.Unlock()
		for i := range broadcasts {
			if ctx.Err() != nil {
				return nil
			}
			hear(broadcasts[i])
		}
	}
}
