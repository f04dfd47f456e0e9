// Package memstore is the reference backend: complete, simple, in memory. Its
// content is lost when the process ends (durability "none"). Where another backend
// differs from it and the contract of [journal.Backend] does not decide, memstore is
// right.
package memstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/thole-dev/thole/journal"
	"github.com/tidwall/btree"
)

// Store is a [journal.Backend] in memory.
type Store struct {
	mu      sync.RWMutex // one lock for everything: reads share it, a batch holds it throughout
	spaces  btree.Map[string, *space]
	loading map[string]*load
	closed  bool
}

var (
	_ journal.Backend = (*Store)(nil)
)

// New returns an empty Store.
func New() *Store { return &Store{loading: map[string]*load{}} }

// Capabilities implements [journal.Backend]: the durability is None.
func (s *Store) Capabilities() journal.Capabilities {
	return journal.Capabilities{Durability: journal.None}
}

// Close drops everything. It is idempotent.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.spaces.Clear()
	clear(s.loading)
	return nil
}

// Commit implements [journal.Backend].
func (s *Store) Commit(ctx context.Context, batch []journal.Commit) ([]journal.Result, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	defer unlock()
	results := make([]journal.Result, len(batch))
	for i := range batch {
		results[i] = s.apply(&batch[i])
	}
	return results, nil
}

func (s *Store) apply(c *journal.Commit) journal.Result {
	sp, ok := s.spaces.Get(c.Space)
	if !ok {
		sp = newSpace(journal.Head{Space: c.Space})
	}
	local := *c
	local.Now = micro(c.Now)
	// The lookups cannot fail here.
	conflict, _ := local.Conflict(
		func(name string) (journal.Position, error) { return sp.version(name), nil },
		func(key string) (journal.Record, error) { return sp.record(key), nil },
	)
	if conflict != nil {
		return journal.Result{Conflict: conflict}
	}
	result, err := sp.apply(&local)
	if err != nil {
		return journal.Result{Err: fmt.Errorf("commit: %w", err)}
	}
	if !ok {
		s.spaces.Set(c.Space, sp)
	}
	return result
}

// Get implements [journal.Backend].
func (s *Store) Get(ctx context.Context, space string, keys ...string) ([]journal.Record, error) {
	unlock, err := s.rlock(ctx)
	if err != nil {
		return nil, fmt.Errorf("get from %s: %w", space, err)
	}
	defer unlock()
	records := make([]journal.Record, len(keys))
	if sp, ok := s.spaces.Get(space); ok {
		for i, key := range keys {
			records[i] = cloneRecord(sp.record(key))
		}
	}
	return records, nil
}

// List implements [journal.Backend].
func (s *Store) List(ctx context.Context, space string, q journal.ListQuery) ([]journal.Record, error) {
	unlock, err := s.rlock(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", space, err)
	}
	defer unlock()
	sp, ok := s.spaces.Get(space)
	if !ok {
		return nil, nil
	}
	return sp.list(q), nil
}

// Read implements [journal.Backend].
func (s *Store) Read(ctx context.Context, space string, q journal.ReadQuery) (journal.Page, error) {
	unlock, err := s.rlock(ctx)
	if err != nil {
		return journal.Page{}, fmt.Errorf("read %s: %w", space, err)
	}
	defer unlock()
	sp, ok := s.spaces.Get(space)
	if !ok {
		sp = newSpace(journal.Head{Space: space})
	}
	if err := sp.head.Resume(q.After); err != nil {
		return journal.Page{}, fmt.Errorf("read: %w", err)
	}
	return sp.read(q), nil
}

// Heads implements [journal.Backend].
func (s *Store) Heads(ctx context.Context, spaces ...string) ([]journal.Head, error) {
	unlock, err := s.rlock(ctx)
	if err != nil {
		return nil, fmt.Errorf("heads: %w", err)
	}
	defer unlock()
	heads := make([]journal.Head, len(spaces))
	for i, name := range spaces {
		heads[i].Space = name
		if sp, ok := s.spaces.Get(name); ok {
			heads[i] = cloneHead(sp.head)
		}
	}
	return heads, nil
}

// Spaces implements [journal.Backend].
func (s *Store) Spaces(ctx context.Context, q journal.SpacesQuery) ([]string, error) {
	unlock, err := s.rlock(ctx)
	if err != nil {
		return nil, fmt.Errorf("spaces: %w", err)
	}
	defer unlock()
	limit := journal.PageLimit(q.Limit)
	var names []string
	s.spaces.Ascend(q.After, func(name string, sp *space) bool {
		if name != q.After && (q.DueBy.IsZero() || sp.due(q.DueBy)) {
			names = append(names, name)
		}
		return len(names) < limit
	})
	return names, nil
}

// lock takes the write lock. It returns an error if ctx ended or the Store is closed.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, journal.ErrClosed
	}
	return s.mu.Unlock, nil
}

// rlock is lock with the read lock.
func (s *Store) rlock(ctx context.Context) (unlock func(), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return nil, journal.ErrClosed
	}
	return s.mu.RUnlock, nil
}
