// Package filestore keeps spaces in a directory of files that people can read,
// and that git can compare and revert: JSON for each record, JSON lines for each
// journal.
//
//	DIR/thole.json                               the format's version
//	DIR/project/shop/journal/0000000000000001.jsonl  one line per commit (see line.go)
//	DIR/project/shop/records/thread/thrd_1.json   a record (see record.go)
//	DIR/global/journal, DIR/global/records        the space "global"
//	DIR/.thole/                                   hidden from git: lock, notes, imports
//
// The journal is the write-ahead log: a commit is acknowledged when its line is on
// stable storage. The files of records follow a moment later. Several processes may
// use one directory; one at a time writes.
//
// The store detects what people or git change, at the latest when it next uses the
// file, and makes it part of the history (see adopt.go).
package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/thole-dev/thole/internal/failstop"
	"github.com/thole-dev/thole/journal"
	"github.com/tidwall/btree"
)

// Options of a Store; nil and the zero value are the defaults.
type Options struct {
	Lag          time.Duration // how long the file of a record may be behind; 0: 200 ms; negative: until Flush or Close
	Poll         time.Duration // how often Watch looks for commits of other processes; 0: 20 ms
	SegmentBytes int64         // size from which a journal continues in a new file; 0: 8 MiB
	AllowNetwork bool          // allow a network file system; only safe if its locks and syncs are reliable
	Log          *slog.Logger  // logs repairs and adoptions; nil: slog.Default
	FS           FS            // the file system; nil: the operating system's
}

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Lag == 0 {
		opts.Lag = 200 * time.Millisecond
	}
	if opts.Poll <= 0 {
		opts.Poll = 20 * time.Millisecond
	}
	if opts.SegmentBytes <= 0 {
		opts.SegmentBytes = 8 << 20
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	return opts
}

// Store is a [journal.Backend] in a directory.
type Store struct {
	dir  string
	disk disk
	stop *failstop.Stop
	opts Options
	log  *slog.Logger

	writing  chan struct{}       // holds a token while this process writes; guards imports
	imports  map[string]imported // what this Store made durable of the import of a space
	lockFile File
	flushing chan struct{} // holds a token while files of records are written
	hurry    chan struct{} // a goroutine that waits for flushing sends to it

	catching sync.Mutex // held while the manifest or the tail of a journal is read
	manifest manifest

	mu         sync.RWMutex // guards the following fields and the content of all spaces
	notes      btree.Map[string, note]
	begun      map[string]bool // spaces whose note only announces them
	incomplete map[string]bool // spaces whose note lacks commits of the journal
	spaces     map[string]*space
	seen       stamp  // of the manifest when it was last read or written
	news       uint64 // counts notes of other processes
	batches    uint64 // counts batches that this Store wrote
	dirty      int64  // bytes of records whose files are behind
	report     []string

	wake    chan struct{} // capacity 1: something is dirty
	closing sync.Once
	closed  chan struct{} // closed when Close begins: no new operation starts
	ended   chan struct{} // closed after the last write
	tasks   sync.WaitGroup
	err     error // of Close
}

var (
	_ journal.Backend = (*Store)(nil)
)

// Open opens the store in the directory dir. If dir does not exist, Open creates it,
// accessible to its owner only; its parent must exist. New files and directories get
// the permissions that dir has at Open. Open migrates a store of an older format.
//
// A store of a newer format, or a network file system without AllowNetwork, is
// errors.ErrUnsupported. A file instead of a directory, or a missing parent, is
// ErrInvalid. ErrUnavailable means that another process held the lock for 30 seconds.
func Open(ctx context.Context, dir string, o *Options) (*Store, error) {
	s, err := newStore(dir, o)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		if s.lockFile != nil {
			s.lockFile.Close()
		}
		s.manifest.close()
		return nil, fmt.Errorf("open: %w", s.explain(err))
	}
	if s.opts.Lag >= 0 {
		s.tasks.Go(s.follow)
		s.tasks.Go(s.tend)
	}
	return s, nil
}

func newStore(dir string, o *Options) (*Store, error) {
	if dir == "" {
		return nil, fmt.Errorf("%w: the directory of a file store is empty", journal.ErrInvalid)
	}
	opts := o.withDefaults()
	s := &Store{
		dir: dir, opts: opts, log: opts.Log,
		writing: make(chan struct{}, 1), wake: make(chan struct{}, 1), flushing: make(chan struct{}, 1), hurry: make(chan struct{}),
		closed: make(chan struct{}), ended: make(chan struct{}),
		imports: map[string]imported{}, spaces: map[string]*space{}, begun: map[string]bool{}, incomplete: map[string]bool{},
	}
	if opts.FS != nil {
		s.useDisk(opts.FS)
		return s, nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("file store %s: %w", dir, err)
	}
	s.dir = abs
	info, err := os.Stat(abs)
	switch {
	case err == nil && !info.IsDir():
		return nil, fmt.Errorf("%w: file store %s is a file; name a directory", journal.ErrInvalid, abs)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("file store %s: %w", abs, err)
	case err != nil:
		if info, err := os.Stat(filepath.Dir(abs)); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("%w: file store %s: there is no directory %s; create it first", journal.ErrInvalid, abs, filepath.Dir(abs))
		}
	}
	s.useDisk(newOSFS(info))
	return s, nil
}

func (s *Store) useDisk(below FS) {
	s.stop = failstop.New(journal.ErrUnavailable, "file store "+s.dir)
	s.disk = disk{failStop{below, s.stop}}
}

// open creates what is missing, then takes the lock, migrates the store, removes what a
// crash left and finds the spaces.
func (s *Store) open(ctx context.Context) error {
	if err := s.disk.Mkdir(s.dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if s.opts.FS == nil && !s.opts.AllowNetwork {
		name, err := network(s.dir)
		if err != nil {
			return err
		}
		if name != "" {
			return fmt.Errorf("%w: file store %s is on a network file system (%s), whose locks and syncs cannot be relied on; put it on a local disk, or set Options.AllowNetwork", errors.ErrUnsupported, s.dir, name)
		}
	}
	if _, err := s.format(); err != nil { // before anything is written
		return err
	}
	if err := s.makePrivate(); err != nil {
		return err
	}
	f, err := s.disk.OpenFile(s.private("lock"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	s.lockFile = f
	unlock, err := s.lockWith(ctx, s.openManifest)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := s.migrate(false); err != nil {
		return err
	}
	for _, dir := range []string{"tmp", "trash"} {
		if err := s.disk.mkdirAll(s.dir, s.private(dir)); err != nil {
			return err
		}
	}
	if err := s.empty(); err != nil {
		return err
	}
	if err := s.findSpaces(); err != nil {
		return err
	}
	if err := s.loadBegun(); err != nil {
		return err
	}
	return s.checkNotes()
}

// private returns a path in DIR/.thole, which is hidden from git.
func (s *Store) private(parts ...string) string {
	return filepath.Join(append([]string{s.dir, ".thole"}, parts...)...)
}

// makePrivate creates DIR/.thole with a .gitignore.
func (s *Store) makePrivate() error {
	if err := s.disk.mkdirAll(s.dir, s.private()); err != nil {
		return err
	}
	ignore := s.private(".gitignore")
	ok, err := s.disk.exists(ignore)
	if err == nil && !ok {
		_, err = s.disk.writeFile(ignore, []byte("# Locks and notes of this machine; never under version control.\n*\n"), true)
	}
	if err != nil {
		return err
	}
	return s.disk.syncDirs([]string{s.private(), s.dir, filepath.Dir(s.dir)})
}

// Capabilities implements [journal.Backend].
func (s *Store) Capabilities() journal.Capabilities {
	return journal.Capabilities{Durability: journal.Sync, Hints: s.hints, Check: s.Check, Stopped: s.stopped, Report: s.Report}
}

func (s *Store) stopped(ctx context.Context) error { return s.stop.Wait(ctx, s.closed) }

// Close waits for running operations, brings the files of records up to date and
// closes the store. It is idempotent. If the store had stopped, Close returns why.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.closed)
		s.tasks.Wait()
		s.err = s.flush(context.Background(), nil)
		s.writing <- struct{}{} // never released
		s.catching.Lock()
		close(s.ended)
		s.manifest.close()
		s.catching.Unlock()
		if err := s.lockFile.Close(); s.err == nil {
			s.err = err
		}
		if err := s.stop.Err(); err != nil {
			s.err = err
		}
	})
	return s.err
}

// lock waits until this goroutine may write, and reads what other processes noted.
// The caller must call unlock.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	return s.lockWith(ctx, s.refresh)
}

// lockWith takes the lock and calls first.
func (s *Store) lockWith(ctx context.Context, first func() error) (unlock func(), err error) {
	select {
	case s.writing <- struct{}{}:
	case <-s.ended:
		return nil, journal.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	release := func() { <-s.writing }
	if err := s.flock(ctx); err != nil {
		release()
		return nil, err
	}
	unlock = func() {
		s.lockFile.Unlock()
		release()
	}
	if err := first(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// lockPatience is how long to wait for a process that holds the lock, since that
// process may be suspended.
const lockPatience = 30 * time.Second

// flock takes the lock between processes. It polls, since a blocking call could not be
// cancelled. After lockPatience it returns ErrUnavailable.
func (s *Store) flock(ctx context.Context) error {
	late := time.Now().Add(lockPatience)
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 2*time.Millisecond) {
		if ok, err := s.lockFile.TryLock(); ok || err != nil {
			return err
		}
		if time.Now().After(late) {
			return fmt.Errorf("%w: file store %s: another process has held the lock for %v; end or continue it, then try again", journal.ErrUnavailable, s.dir, lockPatience)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// usable returns an error if the caller's context ended, or the store is closed or has
// stopped.
func (s *Store) usable(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	select {
	case <-s.closed:
		return journal.ErrClosed
	default:
		return s.stop.Err()
	}
}

// reportf logs a repair or an adoption and keeps it for Report.
func (s *Store) reportf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.log.Warn("file store: "+text, "dir", s.dir)
	s.mu.Lock()
	s.report = append(s.report, text)
	s.mu.Unlock()
}

// Report returns what was repaired and adopted since the store was opened.
func (s *Store) Report() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.report)
}
