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

// The files of records follow the journal: a flush writes each to a temporary file and
// syncs it, renames it into place under the lock, then syncs the directories. Only
// then does a note say that the records no longer depend on the journal.

const (
	maxDirtyBytes = 64 << 20 // above this, commits wait until the files are written
	flushSlice    = 256      // files that are renamed while the lock is held
	restFactor    = 20       // with commits, a flush works 1/(restFactor+1) of the time
)

// signalDirty tells follow that files of records are behind.
func (s *Store) signalDirty() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// follow flushes the files of records Options.Lag after the first commit that they
// lack. It runs until the store closes or stops.
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

// tend patrols the store: it adopts what people changed and compares notes with
// journals. It runs until the store closes or stops.
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
			unread, err = s.patrolNotes(context.Background(), unread)
			s.willRetry(err)
		}
	}
}

// willRetry logs the error of background work that will be tried again, and reports
// whether there is one. The closing or stopping of the store is not.
func (s *Store) willRetry(err error) bool {
	if err == nil || errors.Is(err, journal.ErrClosed) || s.stop.Err() != nil {
		return false
	}
	s.log.Warn("file store: looking after files failed; will try again", "dir", s.dir, "error", err)
	return true
}

// Flush brings the files of all records up to date with the commits so far, for
// example before "git add".
func (s *Store) Flush(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	return s.flush(ctx, nil)
}

// relieve flushes if the files of records are maxDirtyBytes or more behind.
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

// flush brings all files of records up to date. With a pace, it pauses to let commits
// go first.
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
	for _, sp := range behind { // a space that cannot be written must not delay the others
		if err := s.flushSpace(ctx, sp, pc); err != nil {
			errs = append(errs, s.explain(err))
		}
		if context.Cause(ctx) != nil || s.stop.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// turn waits until no other flush runs, and wakes one that rests.
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

// pace spreads the work of a flush over time, since its syncs slow down those of
// commits.
type pace struct {
	*Store
	began uint64    // the number of batches when the flush began
	since time.Time // when the last rest ended
}

func (s *Store) newPace() *pace {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &pace{Store: s, began: s.batches, since: time.Now()}
}

// rest waits restFactor times as long as the work since the last rest took. It does
// not wait if there were no commits since the flush began, and ends early if somebody
// waits for the flush. A nil pace never rests.
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
	rec    *record // nil: the record is deleted
	tmp    string
	staged bool // tmp may exist
	file   stamp
}

// stageFile writes the temporary file of a record.
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

// writeFiles writes temporary files and installs them. It tries up to three times,
// because another process that opens the store meanwhile removes the temporary files
// as leftovers of a crash.
func (s *Store) writeFiles(ctx context.Context, sp *space, files []*pending, upTo uint64, pc *pace) (ok bool, err error) {
	for range 3 {
		if ok, err = s.tryFiles(ctx, sp, files, upTo, pc); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return ok, err
}

// tryFiles is one try of writeFiles. It syncs one file after the other, so that a
// commit never waits for more than one sync.
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

// install renames temporary files into place. If upTo is not zero, it notes that the
// files now hold all commits up to it. It reports false if the space was changed by
// hand or dropped from memory, so that it must be read again first.
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
		return false, nil // dropped from memory; the next load finds the files that are behind
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
			continue // another process installed it
		case p.seq != b.seq && renewed:
			continue // left to the next flush, since the lock is held for one sync at most
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
			s.markClean(sp, p.key, p.file)
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

// renew replaces p by the newer write of its key. The older one must not be installed:
// another process may have installed the newer one already and note it only later, and
// then nobody would correct the file.
func (s *Store) renew(sp *space, p *pending, seq uint64) error {
	s.mu.RLock()
	p.seq = seq
	p.rec, _ = sp.records.Get(p.key)
	s.mu.RUnlock()
	return s.stageFile(p)
}

// installOne replaces the file, which should have the stamp known, and returns the
// directories whose entries changed. It reports false and changes nothing if a person
// changed the file.
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

// tmpName returns a random part for the name of a temporary file, so that the files of
// spaces and processes do not collide.
func (sp *space) tmpName() string { return journal.NewEpoch(sp.era%9999 + 1) }
