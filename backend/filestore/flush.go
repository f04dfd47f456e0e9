package filestore

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"github.com/thole-dev/thole/journal"
)

// The files of records follow the journal: each is written beside its place and
// synced, then renamed to its place under the lock, then the directories are
// synced. Only then do notes say that the journal is not needed for them.

const (
	maxDirtyBytes = 64 << 20 // from here on commits wait until the files are written
	flushSlice    = 256      // files that are renamed while the lock is held
	restFactor    = 20       // beside commits, flushing takes at most one part in so many and one of the time
)

// signalDirty wakes who flushes, if there is something to do.
func (s *Store) signalDirty() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// follow brings the files of records up to date, a little behind the commits.
func (s *Store) follow() {
	var due <-chan time.Time // when to flush
	for {
		select {
		case <-s.closed:
			return
		case <-s.stop.Done():
			return
		case <-s.wake:
			if due == nil {
				due = time.After(s.opts.Lag)
			}
		case <-due:
			due = nil
			if err := s.flush(context.Background(), s.newPace()); s.willRetry(err) {
				s.signalDirty()
			}
		}
	}
}

// tend looks after what people change.
func (s *Store) tend() {
	patrol := time.NewTicker(patrolEvery)
	defer patrol.Stop()
	space, key, unread := "", "", ""
	for {
		select {
		case <-s.closed:
			return
		case <-s.stop.Done():
			s.log.Error("file store: " + s.stop.Err().Error())
			return
		case <-patrol.C:
			var err error
			space, key, err = s.patrol(context.Background(), space, key)
			s.willRetry(err)
			s.willRetry(s.emptyLater(context.Background()))
			unread, err = s.patrolNotes(context.Background(), unread)
			s.willRetry(err)
		}
	}
}

// willRetry logs an error of what is done again later, and reports whether it is one.
func (s *Store) willRetry(err error) bool {
	if err == nil || errors.Is(err, journal.ErrClosed) || s.stop.Err() != nil {
		return false
	}
	s.log.Warn("file store: looking after files failed; will try again", "dir", s.dir, "error", err)
	return true
}

// Flush brings the files of all records up to date with what was committed, as
// one may want before "git add".
func (s *Store) Flush(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	return s.flush(ctx, nil)
}

// relieve flushes when too much is waiting for it.
func (s *Store) relieve(ctx context.Context) error {
	s.mu.RLock()
	dirty := s.dirty
	s.mu.RUnlock()
	if dirty < maxDirtyBytes {
		return nil
	}
	err := s.flush(ctx, nil)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.dirty < maxDirtyBytes {
		return nil
	}
	return err
}

// flush brings all files up to date; with a pace, it leaves commits their time.
func (s *Store) flush(ctx context.Context, pc *pace) error {
	if err := s.turn(ctx); err != nil {
		return err
	}
	defer func() { <-s.flushing }()
	s.mu.RLock()
	var behind []*space
	for _, sp := range s.spaces {
		if len(sp.dirty) > 0 || sp.flushed < sp.head.Last.Seq {
			behind = append(behind, sp)
		}
	}
	s.mu.RUnlock()
	var errs []error
	for _, sp := range behind { // one that cannot be written must not hold up the others
		if err := s.flushSpace(ctx, sp, pc); err != nil {
			errs = append(errs, s.explain(err))
		}
		if context.Cause(ctx) != nil || s.stop.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// turn waits until no other flush runs, and makes one that rests go on at once.
func (s *Store) turn(ctx context.Context) error {
	for {
		select {
		case s.flushing <- struct{}{}:
			return nil
		case s.hurry <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pace spreads the work of a flush, since its syncs slow those of commits.
type pace struct {
	*Store
	began uint64    // how many batches there were then
	since time.Time // of the work since the last rest
}

func (s *Store) newPace() *pace {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &pace{Store: s, began: s.batches, since: time.Now()}
}

// rest waits restFactor times as long as the work took since the last rest. It
// does not if nobody commits meanwhile, or if somebody waits for the flush; no
// pace never rests.
func (p *pace) rest() {
	if p == nil {
		return
	}
	p.mu.RLock()
	alone := p.began == p.batches
	p.mu.RUnlock()
	if !alone {
		select {
		case <-time.After(restFactor * time.Since(p.since)):
		case <-p.hurry:
		case <-p.closed:
		}
	}
	p.since = time.Now()
}

// pending is a record on its way to its file.
type pending struct {
	key    string
	seq    uint64
	rec    *record // nil: it is deleted
	tmp    string
	staged bool // tmp may be there
	file   stamp
}

// stageFile writes the file of a record beside its place.
func (s *Store) stageFile(p *pending) (err error) {
	if p.rec == nil {
		return nil
	}
	p.staged = true
	p.file, err = s.disk.writeFile(p.tmp, encodeRecord(&p.rec.Record), true)
	return err
}

// flushSpace brings the files of one space up to date.
func (s *Store) flushSpace(ctx context.Context, sp *space, pc *pace) error {
	s.mu.RLock()
	upTo := sp.head.Last.Seq
	var all []*pending
	for key, b := range sp.dirty {
		p := &pending{key: key, seq: b.seq}
		p.rec, _ = sp.records.Get(key)
		all = append(all, p)
	}
	s.mu.RUnlock()
	for i, p := range all {
		p.tmp = s.private("tmp", strconv.Itoa(i)+"-"+sp.tmpName())
	}
	for len(all) > flushSlice {
		if ok, err := s.writeFiles(ctx, sp, all[:flushSlice], 0, pc); err != nil || !ok {
			return err
		}
		all = all[flushSlice:]
	}
	_, err := s.writeFiles(ctx, sp, all, upTo, pc)
	return err
}

// writeFiles writes files beside their places and installs them. Whoever opens the
// store meanwhile takes the first for what a crash left, and removes them.
func (s *Store) writeFiles(ctx context.Context, sp *space, files []*pending, upTo uint64, pc *pace) (ok bool, err error) {
	for range 3 {
		if ok, err = s.tryFiles(ctx, sp, files, upTo, pc); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return ok, err
}

// tryFiles syncs one file after the other, so that a commit never waits for more
// than one sync.
func (s *Store) tryFiles(ctx context.Context, sp *space, files []*pending, upTo uint64, pc *pace) (bool, error) {
	defer func() {
		for _, p := range files {
			if p.staged {
				s.disk.Remove(p.tmp)
			}
		}
	}()
	for _, p := range files {
		if p.rec == nil {
			continue
		}
		if err := s.stageFile(p); err != nil {
			return false, err
		}
		pc.rest()
	}
	ok, err := s.install(ctx, sp, files, upTo)
	pc.rest()
	return ok, err
}

// install puts files in their places. With upTo it notes that all commits up to
// there are in files now. It reports false if the space was changed by hand, and
// has to be read anew first.
func (s *Store) install(ctx context.Context, sp *space, files []*pending, upTo uint64) (bool, error) {
	unlock, err := s.lockWith(ctx, s.refresh)
	if err != nil {
		return false, err
	}
	defer unlock()
	s.mu.RLock()
	n, _ := s.notes.Get(sp.name)
	ours := s.spaces[sp.name] == sp
	s.mu.RUnlock()
	if !ours {
		return false, nil // it was dropped from memory; who reads it again finds what is behind
	}
	if err := s.catchUp(sp, n); err != nil {
		return false, nil
	}
	same, err := s.untouched(sp)
	if err != nil {
		return false, err
	}
	var dirs []string
	var done []*pending
	renewed := false
	for _, p := range files {
		if !same {
			break
		}
		b, behind := s.behindOf(sp, p.key)
		switch {
		case !behind || p.seq <= sp.flushed:
			continue // another process did it
		case p.seq != b.seq && renewed:
			continue // the next flush does it: the lock is held for one sync at most
		case p.seq != b.seq:
			if err := s.renew(sp, p, b.seq); err != nil {
				return false, err
			}
			renewed = true
		}
		var changed []string
		if changed, same, err = s.installOne(sp, p, b.file); err != nil {
			return false, err
		}
		dirs = append(dirs, changed...)
		done = append(done, p)
	}
	if err := s.disk.syncDirs(dirs); err != nil {
		return false, err
	}
	if !same {
		s.mu.Lock()
		s.forget(sp)
		s.mu.Unlock()
		_, err := s.load(sp.name)
		return false, err
	}
	s.tellSoon(func() []note {
		for _, p := range done {
			s.settle(sp, p.key, p.file)
		}
		if upTo <= sp.flushed {
			return nil
		}
		sp.flushed = upTo
		return []note{sp.note()}
	})
	return true, nil
}

func (s *Store) behindOf(sp *space, key string) (behind, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	b, ok := sp.dirty[key]
	return b, ok
}

// renew makes p the write that counts, as the key was written again meanwhile. An
// older one must not be installed: another process may have installed the newer one
// already and say so later, and then nobody would correct the file.
func (s *Store) renew(sp *space, p *pending, seq uint64) error {
	s.mu.RLock()
	p.seq = seq
	p.rec, _ = sp.records.Get(p.key)
	s.mu.RUnlock()
	return s.stageFile(p)
}

// installOne puts one file in its place, where the file known is now, and returns
// the directories whose names changed. It reports false if a person changed the
// file.
func (s *Store) installOne(sp *space, p *pending, known stamp) (dirs []string, same bool, err error) {
	root := filepath.Join(sp.dir, "records")
	path := filepath.Join(root, recordFile(p.key))
	file, err := s.disk.stampAt(path)
	if err != nil || known != unknown && file != known {
		return nil, err != nil, err
	}
	if p.rec == nil {
		if err := s.disk.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, true, err
		}
		return []string{s.disk.removeEmpty(sp.dir, filepath.Dir(path))}, true, nil
	}
	if err := s.disk.mkdirAll(sp.dir, filepath.Dir(path)); err != nil {
		return nil, true, err
	}
	if err := s.disk.Rename(p.tmp, path); err != nil {
		return nil, true, err
	}
	return upTo(sp.dir, filepath.Dir(path)), true, nil
}

// tmpName makes names of temporary files of spaces and processes differ.
func (sp *space) tmpName() string { return journal.NewEpoch(sp.era%9999 + 1) }
