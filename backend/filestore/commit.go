package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/thole-dev/thole/journal"
)

// Commit implements [journal.Backend]. It writes the lines of a batch with one sync
// for each journal that the batch touches, several at a time. If a journal cannot be
// opened, for lack of rights or of file descriptors, only its commits fail, each with the
// Err of its Result, and nothing of them is applied. If the disk is full, Commit applies
// nothing of the batch and returns ErrFull; later commits work once there is space again.
func (s *Store) Commit(ctx context.Context, batch []journal.Commit) ([]journal.Result, error) {
	if err := s.relieve(ctx); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	defer unlock()
	results, err := s.commit(batch)
	if err != nil {
		return nil, fmt.Errorf("commit: %w", s.explain(err))
	}
	return results, nil
}

func (s *Store) commit(batch []journal.Commit) ([]journal.Result, error) {
	spaces, sick, err := s.currentOf(batch)
	if err != nil {
		return nil, err
	}
	stages, results := s.stage(spaces, sick, batch)
	var adds []*addition
	for _, st := range stages {
		if len(st.lines) > 0 {
			st.place(s.opts.SegmentBytes)
			adds = append(adds, &st.addition)
		}
	}
	if len(adds) == 0 {
		return results, nil
	}
	if err := s.publish(adds); err != nil {
		return nil, err
	}
	for _, a := range adds {
		if a.refused == nil {
			continue
		}
		err := fmt.Errorf("commit: %w", s.explain(a.refused))
		for i := range batch {
			if batch[i].Space == a.sp.name {
				results[i] = journal.Result{Err: err}
			}
		}
	}
	return results, nil
}

// currentOf returns the current spaces of a batch, and in sick the error of each
// space that cannot be read, which fails only the commits to that space. It first
// adopts what people did to the files that the batch touches.
func (s *Store) currentOf(batch []journal.Commit) (spaces map[string]*space, sick map[string]error, err error) {
	keys := map[string][]string{}
	for i := range batch {
		c := &batch[i]
		names := keys[c.Space]
		for _, k := range c.Checks {
			if k.Key != "" {
				names = append(names, k.Key)
			}
		}
		for j := range c.Writes {
			names = append(names, c.Writes[j].Key)
		}
		keys[c.Space] = names
	}
	spaces, sick = map[string]*space{}, map[string]error{}
	for i := range batch {
		name := batch[i].Space
		if spaces[name] != nil || sick[name] != nil {
			continue
		}
		sp, err := s.currentFor(name, keys[name])
		switch {
		case err == nil:
			spaces[name] = sp
		case s.stop.Err() != nil:
			return nil, nil, err
		case errors.Is(err, journal.ErrCorrupt), errors.Is(err, fs.ErrPermission): // its files say so
			sick[name] = s.explain(err)
		default:
			return nil, nil, err
		}
	}
	return spaces, sick, nil
}

// currentFor is current for a commit that touches the records of keys: it also adopts
// what people did to their files.
func (s *Store) currentFor(name string, keys []string) (*space, error) {
	sp, err := s.current(name)
	if err != nil {
		return nil, err
	}
	changed, err := s.changedRecords(name, keys)
	if err != nil || len(changed) == 0 {
		return sp, err
	}
	if _, err := s.load(name); err != nil {
		return nil, err
	}
	return s.current(name)
}

// stage checks the commits of a batch, each against its space as the commits before
// it left it, and returns the stages in the order in which the batch names the spaces.
// The caller holds the lock, so nobody else adds to the journals; mu guards the memory
// against readers that are catching up.
func (s *Store) stage(spaces map[string]*space, sick map[string]error, batch []journal.Commit) ([]*stage, []journal.Result) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var order []*stage
	stages := map[string]*stage{}
	results := make([]journal.Result, len(batch))
	for i := range batch {
		c := batch[i]
		if err := sick[c.Space]; err != nil {
			results[i].Err = fmt.Errorf("commit: %w", err)
			continue
		}
		c.Now = micro(c.Now)
		st := stages[c.Space]
		if st == nil {
			st = newStage(spaces[c.Space])
			stages[c.Space] = st
			order = append(order, st)
		}
		var err error
		if results[i], err = st.commit(&c); err != nil {
			results[i] = journal.Result{Err: fmt.Errorf("commit: %w", err)}
		}
	}
	return order, results
}

// publish makes additions durable, then visible in this process, then notes them for
// other processes.
func (s *Store) publish(adds []*addition) error {
	var created []*space
	for _, a := range adds {
		if len(a.sp.segments) == 0 {
			created = append(created, a.sp)
		}
	}
	if err := s.announce(created); err != nil {
		return err
	}
	if err := s.put(adds); err != nil {
		return err
	}
	adds = slices.DeleteFunc(slices.Clone(adds), func(a *addition) bool { return a.refused != nil })
	s.tellSoon(func() []note {
		notes := make([]note, len(adds))
		for i, a := range adds {
			s.spaces[a.sp.name] = a.sp
			s.dirty += a.apply()
			notes[i] = a.sp.note()
		}
		s.batches++
		s.signalDirty()
		return notes
	})
	return nil
}

// current returns the current state of a space for a commit, an empty space if it
// does not exist. It first adopts what a person did to the journal. The caller holds
// the lock.
func (s *Store) current(name string) (*space, error) {
	s.mu.RLock()
	n, known := s.notes.Get(name)
	sp := s.spaces[name]
	s.mu.RUnlock()
	if !known || n.Gone {
		sp = newSpace(name, filepath.Join(s.dir, spaceDir(name)))
		sp.era = n.Era + 1
		if firsts, err := s.segments(sp.dir); len(firsts) == 0 || err != nil {
			return sp, err
		}
		// Somebody added it since the store was opened.
		if err := s.noteFound(map[string]bool{name: true}); err != nil {
			return nil, err
		}
		sp = nil
	}
	if sp != nil {
		if s.catchUp(sp, n) == nil { // otherwise it must be read again
			if same, err := s.untouched(sp); same || err != nil {
				return sp, err
			}
		}
	}
	sp, err := s.load(name)
	if err != nil {
		return nil, err
	}
	if sp == nil {
		return s.current(name) // it was removed
	}
	return sp, nil
}

// untouched reports whether the journal on disk is the one in memory: its newest
// segment has the same length and no other follows it. Every writer changes one of
// the two before it acknowledges anything, even if it then fails to write a note. The
// answer stays valid while the caller holds the lock.
func (s *Store) untouched(sp *space) (bool, error) {
	s.mu.RLock()
	var newest segment
	if n := len(sp.segments); n > 0 {
		newest = sp.segments[n-1]
	}
	next := sp.head.Last.Seq + 1
	s.mu.RUnlock()
	if newest.first == 0 {
		return true, nil
	}
	return s.endsWith(sp.dir, newest, next)
}

// endsWith reports whether the journal of the space in dir ends with that segment and
// no segment that begins at next follows.
func (s *Store) endsWith(dir string, newest segment, next uint64) (bool, error) {
	file, err := s.disk.stampAt(segmentPath(dir, newest.first))
	if err != nil || file.size != newest.size {
		return false, err
	}
	follows, err := s.disk.exists(segmentPath(dir, next))
	return !follows && err == nil, err
}

// stage is a space with the effects of the commits of a batch so far.
type stage struct {
	addition
	head    journal.Head
	forked  bool
	streams map[string]journal.Position
	records map[string]journal.Record
}

func newStage(sp *space) *stage {
	head := cloneHead(sp.head)
	return &stage{
		addition: addition{sp: sp}, head: head, forked: sp.forked,
		streams: map[string]journal.Position{}, records: map[string]journal.Record{},
	}
}

// commit checks c and adds its line.
func (st *stage) commit(c *journal.Commit) (journal.Result, error) {
	if err := checkNames(c); err != nil {
		return journal.Result{}, err
	}
	conflict, err := c.Conflict(
		func(name string) (journal.Position, error) {
			if at, ok := st.streams[name]; ok {
				return at, nil
			}
			return st.sp.version(name), nil
		},
		func(key string) (journal.Record, error) {
			if r, ok := st.records[key]; ok {
				return r, nil
			}
			return st.sp.record(key), nil
		},
	)
	if err != nil || conflict != nil {
		return journal.Result{Conflict: conflict}, err
	}
	result, err := st.advance(c)
	if err != nil {
		return result, err
	}
	l := newLine(c, result)
	st.add(l)
	for i := range l.Events {
		st.streams[l.Events[i].Stream] = journal.Position{Epoch: l.At.Epoch, Seq: l.Events[i].Seq}
	}
	for i := range l.Writes {
		w := &l.Writes[i]
		st.records[w.Key] = journal.Record{}
		if !w.Deleted {
			st.records[w.Key] = journal.Record{Key: w.Key, Version: l.At, Expires: w.Expires, Notify: w.Notify}
		}
	}
	return result, nil
}

// advance moves the staged head over c. A forked space, whose current epoch may also
// continue elsewhere, begins a new epoch.
func (st *stage) advance(c *journal.Commit) (journal.Result, error) {
	if st.forked {
		st.forked = false
		epochs := st.head.Epochs
		if n := len(epochs); n > 0 {
			epoch := journal.NewEpoch(generationOf(epochs[n-1].Name) + 1)
			st.head.Epochs = append(epochs, journal.Epoch{Name: epoch, First: st.head.Last.Seq + 1})
		}
	}
	return st.head.Advance(c, journal.MaxSeq)
}
