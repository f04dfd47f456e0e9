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

// Options tune a Store. The zero value is the default.
type Options struct {
	// Concepts are what the Store is given: see [Concept]. What they need comes with
	// them. Package state/all lists those of Thole.
	Concepts []*Concept
	// Now is the wall clock; nil is the system's, moved on by the monotonic clock
	// when that is ahead, so that setting it back moves nothing.
	Now func() time.Time
	// Poll is how often the heads of watched spaces are read when no hint
	// comes. It bounds how late another process's commit is seen. Default 1 s.
	Poll time.Duration
	// Sweep is how often expired records are looked for. Default 1 s; negative:
	// never by this Store (another process does, or nobody).
	Sweep time.Duration
	// RingBytes bounds what is kept in memory for the watchers of one space.
	// Default 4 MiB.
	RingBytes int
	// CacheRecords bounds the records kept in memory for updates. Default 65,536.
	CacheRecords int
	// ProjectionBytes bounds, about, what Projections keep in memory. Default 128 MiB: the
	// newest turns of a thousand threads and more.
	ProjectionBytes int
	// Logger hears of background faults. Default slog.Default().
	Logger *slog.Logger
}

// Store is a backend with everything that happens once for all backends:
// validation, group commit, idempotency, expiry, watching. It is safe for
// concurrent use.
type Store struct {
	backend     journal.Backend
	opts        Options
	log         *slog.Logger
	clock       *clock
	ahead       ahead // what was seen of clocks that are ahead of this machine's
	beats       beats // of such clocks
	commits     *groupcommit.Committer
	records     *cache.Records
	projections *cache.Projections
	contention  contention
	concepts    *Concepts

	fanout   *fanout.Fanout
	exchange *broadcast.Exchange
	hints    fanout.Hints
	over     <-chan struct{} // closed when the Store closes

	stop  context.CancelFunc
	tasks sync.WaitGroup // every goroutine of the Store
	once  sync.Once
	err   error // of Close
}

// Open starts a Store on b, which it owns from then on and closes in
// [Store.Close]. It reads from b once, to compare the machine's clock with the
// times there. A nil opts means the defaults.
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
		beats:       beats{strange: make(map[recordName]sight)},
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

// Backend returns the backend, for tools that check or copy it. Committing to
// it directly bypasses everything that the Store promises.
func (s *Store) Backend() journal.Backend { return s.backend }

// Concepts returns what the Store was given.
func (s *Store) Concepts() *Concepts { return s.concepts }

// Durability says what an acknowledged commit survives.
func (s *Store) Durability() journal.Durability { return s.backend.Capabilities().Durability }

// Stopped waits until the backend stopped because its disk failed, and returns why;
// nil when ctx ends before. A backend that stopped refuses
// everything with that error: end the process, so that another one recovers.
func (s *Store) Stopped(ctx context.Context) error {
	stopped := s.backend.Capabilities().Stopped
	if stopped == nil {
		<-ctx.Done()
		return nil
	}
	return stopped(ctx)
}

// Now returns the store's time: UTC, in microseconds, never going back.
func (s *Store) Now() time.Time { return s.clock.now() }

// Spaces lists the names of existing spaces in byte order. Limit is 1…MaxPage
// (0: MaxPage); go on by setting After to the last name. If some of several
// stores do not answer, it returns the spaces of the others and an
// *UnreachableError.
func (s *Store) Spaces(ctx context.Context, q SpacesQuery) ([]string, error) {
	q.Limit = journal.PageLimit(q.Limit)
	return s.backend.Spaces(ctx, q)
}

// Space returns a handle on the named space, which need not exist: its first
// commit creates it. A bad name is reported, as ErrInvalid, by the handle's
// first use.
func (s *Store) Space(name string) *Space {
	return &Space{store: s, name: name, err: journal.CheckAnySpaceName(name), old: journal.CheckSpaceName(name) != nil, actor: "system"}
}

// Close stops the Store: it commits what is queued, ends all watches with
// ErrClosed, waits for its goroutines and closes the backend. It is idempotent.
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
