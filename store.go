package thole

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/thole-dev/thole/internal/broadcast"
	"github.com/thole-dev/thole/internal/cache"
	"github.com/thole-dev/thole/internal/fanout"
	"github.com/thole-dev/thole/internal/groupcommit"
	"github.com/thole-dev/thole/journal"
)

// Options configures a Store. The zero value is the default.
type Options struct {
	// Concepts are the Store's concepts: see [Concept]. The concepts that they need are
	// added. Package state/all lists those of Thole.
	Concepts []*Concept
	// Now is the wall clock. Nil means the system clock, or the monotonic clock when
	// that is ahead, so that setting the system clock back has no effect.
	Now func() time.Time
	// Poll is how often the Store reads the heads of watched spaces when it gets no
	// hints. It bounds how late watchers see commits of other processes. Default 1 s.
	Poll time.Duration
	// Sweep is how often the Store looks for expired records. Default 1 s; negative:
	// never, so that another process has to.
	Sweep time.Duration
	// RingBytes bounds the memory for the watchers of one space. Default 4 MiB.
	RingBytes int
	// CacheRecords bounds the number of records cached for updates. Default 65,536.
	CacheRecords int
	// ProjectionBytes is the approximate bound of the memory for Projections. Default
	// 128 MiB, enough for the newest turns of over a thousand threads.
	ProjectionBytes int
	// Logger logs errors in the background. Default slog.Default().
	Logger *slog.Logger
}

// Store adds to a backend what is the same for all backends: validation, group commit,
// idempotency, expiry, watching. It is safe for concurrent use.
type Store struct {
	backend     journal.Backend
	opts        Options
	log         *slog.Logger
	clock       *clock
	ahead       ahead // times seen ahead of this machine's clock
	beats       beats // lease beats seen with such times
	commits     *groupcommit.Committer
	records     *cache.Records
	projections *cache.Projections
	contention  contention
	leftOut     leftOut
	concepts    *Concepts

	fanout   *fanout.Fanout
	exchange *broadcast.Exchange
	hints    fanout.Hints
	over     <-chan struct{} // closed when the Store closes

	stop  context.CancelFunc
	tasks sync.WaitGroup // all goroutines of the Store
	once  sync.Once
	err   error // the result of Close
}

// Open returns a Store on b. The Store owns b: [Store.Close] closes it, and so does
// Open if it fails. Open reads from b to compare the machine's clock with the times
// there. Nil opts mean the defaults.
func Open(ctx context.Context, b journal.Backend, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	setDefault(&o.Poll, time.Second)
	setDefault(&o.Sweep, time.Second)
	setDefault(&o.RingBytes, 4<<20)
	setDefault(&o.CacheRecords, 1<<16)
	setDefault(&o.ProjectionBytes, 128<<20)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	concepts, err := NewConcepts(o.Concepts...)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	background, stop := context.WithCancel(context.Background())
	s := &Store{
		backend: b, opts: o, log: o.Logger, stop: stop,
		concepts: concepts, clock: newClock(o.Now),
		records:     cache.NewRecords(o.CacheRecords),
		projections: cache.NewProjections(o.ProjectionBytes),
		ahead:       ahead{by: make(map[string]time.Duration)},
		beats:       beats{skewed: make(map[recordName]seenBeat)},
	}
	s.over = background.Done()
	s.fanout = fanout.New(s.source(), o.RingBytes, s.log)
	s.exchange = broadcast.New(s.over, checkBroadcast, s.fanout.Broadcast, s.log)
	if err := s.catchUpClock(ctx); err != nil {
		stop()
		return nil, errors.Join(err, b.Close())
	}
	s.commits = groupcommit.New(b, s.written, s.fanout.BatchEnded)
	s.commits.Start(&s.tasks)
	s.tasks.Go(func() { s.poll(background) })
	can := b.Capabilities()
	if can.Hints != nil {
		s.tasks.Go(func() {
			if err := can.Hints(background, s.hinted); err != nil && background.Err() == nil {
				s.log.Warn("backend stopped giving hints; polling goes on", "error", err)
			}
		})
	}
	if can.SendBroadcasts != nil {
		s.exchange.Attach(background, can, &s.tasks)
	}
	if o.Sweep > 0 {
		s.tasks.Go(func() { s.sweepLoop(background) })
	}
	return s, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Backend returns the backend, for tools that check or copy it. Committing to it
// directly bypasses all guarantees of the Store.
func (s *Store) Backend() journal.Backend { return s.backend }

// Concepts returns the Store's concepts.
func (s *Store) Concepts() *Concepts { return s.concepts }

// Durability returns what an acknowledged commit survives.
func (s *Store) Durability() journal.Durability { return s.backend.Capabilities().Durability }

// Stopped waits until the backend stops because its disk failed, and returns why. It
// returns nil if ctx ends first. A stopped backend fails every call with that error:
// end the process, so that the next one recovers.
func (s *Store) Stopped(ctx context.Context) error {
	stopped := s.backend.Capabilities().Stopped
	if stopped == nil {
		<-ctx.Done()
		return nil
	}
	return stopped(ctx)
}

// Now returns the Store's time, in UTC and whole microseconds. It never goes back.
func (s *Store) Now() time.Time { return s.clock.now() }

// Spaces lists the names of existing spaces in byte order. Limit is 1…MaxPage (0:
// MaxPage); to continue, set After to the last name. If some of several stores do not
// answer, it returns the spaces of the others and an *UnreachableError.
func (s *Store) Spaces(ctx context.Context, q SpacesQuery) ([]string, error) {
	q.Limit = journal.PageLimit(q.Limit)
	return s.backend.Spaces(ctx, q)
}

// Space returns a handle on the named space, with the actor "system". The space need
// not exist: its first commit creates it. If the name is malformed, every call through
// the handle returns ErrInvalid.
func (s *Store) Space(name string) *Space {
	return &Space{store: s, name: name, err: journal.CheckAnySpaceName(name), old: journal.CheckSpaceName(name) != nil, actor: "system"}
}

// Close closes the Store: it commits what is queued, ends all watches with ErrClosed,
// waits for its goroutines and closes the backend. It is idempotent.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.stop()
		s.commits.Close()
		s.fanout.Close()
		s.tasks.Wait()
		s.err = s.backend.Close()
	})
	return s.err
}
