package filestore

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/thole-dev/thole"
)

// Commit implements [thole.Backend]. The lines of a batch are written with one
// sync for each journal that it touches, several at a time. If the disk is full
// none of the batch was applied, and commits go on when there is space again.
// After a sync that failed nothing is written until the store is opened again.
func (s *Store) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	for i := range batch {
		if err := checkNames(&batch[i]); err != nil {
			return nil, fmt.Errorf("commit: %w", err)
		}
	}
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
		return nil, fmt.Errorf("commit: %w", s.fail(err))
	}
	return results, nil
}

func (s *Store) commit(batch []thole.Commit) ([]thole.Result, error) {
	spaces, err := s.currentOf(batch)
	if err != nil {
		return nil, err
	}
	stages, results, err := s.stage(spaces, batch)
	if err != nil {
		return nil, err
	}
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
	return results, s.publish(adds)
}

// currentOf returns the spaces of a batch as they are now: what people did to the
// files that the batch is about is adopted first.
func (s *Store) currentOf(batch []thole.Commit) (map[string]*space, error) {
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
	spaces := map[string]*space{}
	for i := range batch {
		name := batch[i].Space
		if spaces[name] != nil {
			continue
		}
		sp, err := s.current(name)
		if err != nil {
			return nil, err
		}
		changed, err := s.changedRecords(name, keys[name])
		if err != nil {
			return nil, err
		}
		if len(changed) > 0 {
			if _, err := s.load(name); err != nil {
				return nil, err
			}
			if sp, err = s.current(name); err != nil {
				return nil, err
			}
		}
		spaces[name] = sp
	}
	return spaces, nil
}

// stage checks the commits of a batch, each on what those before it made of its
// space, and returns the stages in the order in which the batch names the spaces.
// The lock lets nobody else add to them; mu is for the memory, in which readers catch
// up with the one who has the lock next.
func (s *Store) stage(spaces map[string]*space, batch []thole.Commit) ([]*stage, []thole.Result, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var order []*stage
	stages := map[string]*stage{}
	results := make([]thole.Result, len(batch))
	for i := range batch {
		c := batch[i]
		c.Now = micro(c.Now)
		st := stages[c.Space]
		if st == nil {
			st = newStage(spaces[c.Space])
			stages[c.Space] = st
			order = append(order, st)
		}
		var err error
		if results[i], err = st.commit(&c); err != nil {
			return nil, nil, err
		}
	}
	return order, results, nil
}

// publish makes additions durable, then visible here, then to others.
func (s *Store) publish(adds []*addition) error {
	var created []*space
	for _, a := range adds {
		if len(a.sp.segments) == 0 {
			created = append(created, a.sp)
		}
	}
	if err := s.announce(created); err != nil {
		s.withdraw(created)
		return err
	}
	if undone, err := s.put(adds); err != nil {
		if undone {
			s.withdraw(created)
		}
		return err
	}
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

// current returns a space as it is now, for a commit: empty if there is none.
// What a person did to its journal meanwhile is adopted first. The caller holds
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
		// Somebody put it there since the store was opened.
		if err := s.noteFound(map[string]bool{name: true}); err != nil {
			return nil, err
		}
		sp = nil
	}
	if sp != nil {
		if s.catchUp(sp, n) == nil { // else it has to be read anew
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
		return s.current(name) // it is gone
	}
	return sp, nil
}

// untouched reports whether the journal is as long as it should be. The caller
// holds the lock, so nobody but a person changes it.
func (s *Store) untouched(sp *space) (bool, error) {
	n := len(sp.segments)
	if n == 0 {
		return true, nil
	}
	last := sp.segments[n-1]
	file, err := s.disk.stampAt(segmentPath(sp.dir, last.first))
	return file.size == last.size, err
}

// stage is a space with what the commits of a batch before this one made of it.
type stage struct {
	addition
	head    thole.Head
	forked  bool
	streams map[string]thole.Position
	records map[string]thole.Record
}

func newStage(sp *space) *stage {
	head := cloneHead(sp.head)
	return &stage{
		addition: addition{sp: sp}, head: head, forked: sp.forked,
		streams: map[string]thole.Position{}, records: map[string]thole.Record{},
	}
}

// commit checks c and adds its line.
func (st *stage) commit(c *thole.Commit) (thole.Result, error) {
	conflict, err := c.Conflict(
		func(name string) (thole.Position, error) {
			if at, ok := st.streams[name]; ok {
				return at, nil
			}
			return st.sp.version(name), nil
		},
		func(key string) (thole.Record, error) {
			if r, ok := st.records[key]; ok {
				return r, nil
			}
			return st.sp.record(key), nil
		},
	)
	if err != nil || conflict != nil {
		return thole.Result{Conflict: conflict}, err
	}
	result := st.advance(c)
	l := newLine(c, result)
	st.add(l)
	for i := range l.Events {
		st.streams[l.Events[i].Stream] = thole.Position{Epoch: l.At.Epoch, Seq: l.Events[i].Seq}
	}
	for i := range l.Writes {
		w := &l.Writes[i]
		st.records[w.Key] = thole.Record{}
		if !w.Deleted {
			st.records[w.Key] = thole.Record{Key: w.Key, Version: l.At, Expires: w.Expires, Notify: w.Notify}
		}
	}
	return result, nil
}

// advance moves the staged head. A space that may go on elsewhere under its
// current epoch begins another one here.
func (st *stage) advance(c *thole.Commit) thole.Result {
	if st.forked {
		st.forked = false
		epochs := st.head.Epochs
		if n := len(epochs); n > 0 {
			epoch := thole.NewEpoch(generationOf(epochs[n-1].Name) + 1)
			st.head.Epochs = append(epochs, thole.Epoch{Name: epoch, First: st.head.Last.Seq + 1})
		}
	}
	return st.head.Advance(c)
}
