// Package sqlitestore keeps spaces in one SQLite file: the embedded default.
//
// A batch of commits is one transaction, synced before it is acknowledged.
// Reads run in parallel, also while a batch is written. Several processes may
// open one file. People can read the views (see schema.go) with the sqlite3 shell:
// try "SELECT * FROM events".
package sqlitestore

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3/vfs"
	"github.com/thole-dev/thole/internal/failstop"
	"github.com/thole-dev/thole/journal"
)

// Options of a Store; nil and the zero value are the defaults.
type Options struct {
	Readers    int           // connections that read in parallel; 0: GOMAXPROCS, within 2…8
	CacheBytes int64         // memory for pages, over all connections; 0: 64 MiB
	Poll       time.Duration // how often Watch looks for commits of other processes; 0: 20 ms
	VFS        vfs.VFS       // the file system below SQLite, see syncDir; nil: the operating system's
}

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Readers <= 0 {
		opts.Readers = min(max(2, runtime.GOMAXPROCS(0)), 8)
	}
	if opts.CacheBytes <= 0 {
		opts.CacheBytes = 64 << 20
	}
	if opts.Poll <= 0 {
		opts.Poll = 20 * time.Millisecond
	}
	return opts
}

// Store is a [journal.Backend] in a SQLite file.
type Store struct {
	file
	opts    Options
	writer  *writer
	writing chan struct{} // holds a token while the writer is in use
	readers *pool

	closing sync.Once
	closed  chan struct{}
	err     error // of Close
}

// file names a database.
type file struct {
	path  string
	real  string // path without symbolic links, set when it is first opened
	vfs   string // name of its VFS while it is mounted
	below vfs.VFS
	stop  *failstop.Stop
}

// mount registers the VFS through which SQLite accesses f, on top of below; nil is the
// operating system's. SQLite finds it by name; f's address makes the name unique.
func (f *file) mount(below vfs.VFS) {
	if below == nil {
		below = privateFiles{vfs.Find("os").(vfs.VFSFilename)}
	}
	f.below = below
	f.vfs = fmt.Sprintf("thole-%p", f)
	f.stop = failstop.New(journal.ErrUnavailable, "sqlite store "+f.path)
	vfs.Register(f.vfs, fileSystem{failStop{below, f.stop}})
}

func (f *file) unmount() { vfs.Unregister(f.vfs) }

var (
	_ journal.Backend = (*Store)(nil)
)

// Open opens the store in the file at path. It creates a missing file, accessible to
// its owner only, but not a missing directory. It migrates a store of an older version.
//
// Errors name the path and say what to do. A file that is damaged or not a database is
// ErrCorrupt, a store of a newer version is errors.ErrUnsupported, and the database of
// another program or a missing directory is ErrInvalid.
func Open(ctx context.Context, path string, o *Options) (*Store, error) {
	opts := o.withDefaults()
	f, err := locate(path, opts.VFS == nil)
	if err != nil {
		return nil, err
	}
	s := &Store{
		file: f, opts: opts, writing: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	s.mount(opts.VFS)
	db, err := s.file.open(ctx, opts.CacheBytes/4)
	if err != nil {
		s.unmount()
		return nil, s.explain(ctx, err)
	}
	s.readers = newPool(s.file, opts.Readers, opts.CacheBytes*3/4)
	s.writer = newWriter(db, &s.file, s.readers)
	if err := syncDir(s.below, s.real); err != nil {
		s.Close()
		return nil, fmt.Errorf("sqlite store %s: sync its directory: %w", f.path, err)
	}
	s.scrubOwed(ctx)
	if s.stop.Err() != nil { // the disk failed in scrubOwed
		return nil, s.Close()
	}
	return s, nil
}

// Capabilities implements [journal.Backend].
func (s *Store) Capabilities() journal.Capabilities {
	return journal.Capabilities{Durability: journal.Sync, Hints: s.hints, Check: s.Check, Stopped: s.stopped}
}

func (s *Store) stopped(ctx context.Context) error { return s.stop.Wait(ctx, s.closed) }

// Close waits for running operations, moves the log into the file and closes it.
// It is idempotent. If the store had stopped, Close returns why.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.closed)
		s.writing <- struct{}{} // never released
		s.err = s.readers.close()
		if err := s.writer.close(); s.err == nil {
			s.err = err
		}
		s.err = s.explain(context.Background(), cmp.Or(s.err, s.stop.Err()))
		s.unmount()
	})
	return s.err
}

// lock waits until the caller may use the writer. The caller must call unlock.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	select {
	case <-s.closed:
		return nil, journal.ErrClosed
	default:
	}
	if err := s.stop.Err(); err != nil {
		return nil, err
	}
	select {
	case s.writing <- struct{}{}:
		return func() { <-s.writing }, nil
	case <-s.closed:
		return nil, journal.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
