package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thole-dev/thole/journal"
)

// errStale means that a file is not as memory says: another process or a person
// changed it. The reader then tries again.
var errStale = errors.New("changed meanwhile")

// maxTries is how often a reader tries.
const maxTries = 10

// view calls choose with the current state of a space, nil if it does not exist, while
// it holds mu, then read without mu. If read finds a changed file, view starts over; it
// returns ErrCorrupt after maxTries tries.
func (s *Store) view(ctx context.Context, name string, choose func(*space), read func() error) error {
	for i := 1; ; i++ {
		sp, err := s.withSpace(ctx, name, choose)
		if err != nil || read == nil {
			return err
		}
		err = read()
		if !errors.Is(err, errStale) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if i == maxTries {
			return fmt.Errorf("%w: %s: %w", journal.ErrCorrupt, name, err)
		}
		if i > 1 { // the first time, another process may just have replaced a file
			s.mu.Lock()
			if sp != nil {
				s.forget(sp)
			}
			s.mu.Unlock()
		}
	}
}

// withSpace calls fn with the current state of a space, nil if it does not exist, while it
// holds mu. It first reads the space or what is new in it.
func (s *Store) withSpace(ctx context.Context, name string, fn func(*space)) (*space, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if err := s.refresh(); err != nil {
		return nil, err
	}
	for {
		s.mu.RLock()
		n, known := s.notes.Get(name)
		sp := s.spaces[name]
		if !known || n.Gone {
			sp = nil
		}
		if sp == nil && (!known || n.Gone) || sp != nil && !n.Began && sp.at(n) {
			fn(sp)
			s.mu.RUnlock()
			return sp, nil
		}
		s.mu.RUnlock()
		if sp != nil {
			if s.catchUp(sp, n) == nil {
				continue
			}
		}
		if err := s.loadNow(ctx, name); err != nil {
			return nil, err
		}
	}
}

// loadNow takes the lock and reads a space from its files.
func (s *Store) loadNow(ctx context.Context, name string) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s.mu.RLock()
	sp := s.spaces[name]
	n, _ := s.notes.Get(name)
	s.mu.RUnlock()
	if sp != nil && s.catchUp(sp, n) == nil {
		return nil // another goroutine read it
	}
	_, err = s.load(name)
	return s.explain(err)
}

// catchUp reads what another process appended to a journal, up to note n. After an
// error the caller must load the space again.
func (s *Store) catchUp(sp *space, n note) error {
	s.catching.Lock()
	defer s.catching.Unlock()
	for {
		s.mu.RLock()
		behind := !sp.at(n)
		count := len(sp.segments)
		var last segment
		if count > 0 {
			last = sp.segments[count-1]
		}
		next := sp.head.Last.Seq + 1
		s.mu.RUnlock()
		switch {
		case !behind:
			return nil
		case n.Last.IsZero() || count == 0 || last.first > n.Segment || last.first == n.Segment && last.size > n.Size:
			return errStale
		}
		end := n.Size
		if last.first < n.Segment {
			info, err := s.disk.stampAt(segmentPath(sp.dir, last.first))
			if err != nil {
				return err
			}
			if end = info.size; end == last.size {
				s.mu.Lock()
				sp.segments = append(slices.Clip(sp.segments), segment{first: next})
				s.mu.Unlock()
				continue
			}
		}
		if err := s.readTail(sp, last, end); err != nil {
			return err
		}
	}
}

// readTail applies the lines of a segment after those in memory, up to offset end.
func (s *Store) readTail(sp *space, seg segment, end int64) error {
	data, err := s.readAt(sp.dir, seg.first, seg.size, end-seg.size)
	if err != nil {
		return err
	}
	if int64(len(data)) < end-seg.size {
		return errStale
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	added := int64(0)
	done, err := scan(segmentPath(sp.dir, seg.first), data, seg.size, func(l *line, data []byte, offset int64) error {
		if err := sp.replay(l, data, offset); err != nil {
			return err
		}
		added += sp.write(l)
		return nil
	})
	if err != nil || done != end {
		return errStale
	}
	sp.segments[len(sp.segments)-1].size = end
	if s.spaces[sp.name] == sp {
		s.dirty += added
		s.flushedBy(sp, sp.flushed) // the writer may already have flushed these records
		s.signalDirty()
	}
	return nil
}

// Get implements [journal.Backend].
func (s *Store) Get(ctx context.Context, name string, keys ...string) ([]journal.Record, error) {
	records := make([]journal.Record, len(keys))
	err := s.records(ctx, name, func(sp *space) []journal.Record {
		clear(records)
		if sp != nil {
			for i, key := range keys {
				records[i] = sp.record(key)
			}
		}
		return records
	})
	if err != nil {
		return nil, fmt.Errorf("get from %s: %w", name, err)
	}
	return records, nil
}

// List implements [journal.Backend].
func (s *Store) List(ctx context.Context, name string, q journal.ListQuery) ([]journal.Record, error) {
	var page []journal.Record
	err := s.records(ctx, name, func(sp *space) []journal.Record {
		page = nil
		if sp != nil {
			page = sp.list(q)
		}
		return page
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", name, err)
	}
	return page, nil
}

func (sp *space) list(q journal.ListQuery) []journal.Record {
	limit := journal.PageLimit(q.Limit)
	var page []journal.Record
	sp.records.Ascend(max(q.Prefix, q.After), func(key string, r *record) bool {
		if !strings.HasPrefix(key, q.Prefix) {
			return false
		}
		if q.Match(r.Record) {
			page = append(page, r.Record)
		}
		return len(page) < limit
	})
	return page
}

// records fills in the values of the records that choose returns, from memory or from
// their files.
func (s *Store) records(ctx context.Context, name string, choose func(*space) []journal.Record) error {
	var chosen []journal.Record
	return s.view(ctx, name, func(sp *space) { chosen = choose(sp) }, func() error {
		for i := range chosen {
			r := &chosen[i]
			if !r.Exists() || r.Value != nil {
				*r = cloneRecord(*r)
				continue
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := s.readValue(name, r); err != nil {
				return err
			}
		}
		return nil
	})
}

// readValue reads the value of a record from its file.
func (s *Store) readValue(space string, r *journal.Record) error {
	path := filepath.Join(s.dir, spaceDir(space), "records", recordFile(r.Key))
	data, err := s.disk.readFile(path)
	if err != nil {
		return err
	}
	got, ours, err := decodeRecord(data)
	if err != nil || !ours || got.Version != r.Version {
		return fmt.Errorf("%s: %w", path, errStale)
	}
	r.Value = got.Value
	return nil
}

// maxScan is the most events that are read for one page.
const maxScan = 8 * journal.MaxPage

// Read implements [journal.Backend].
func (s *Store) Read(ctx context.Context, name string, q journal.ReadQuery) (journal.Page, error) {
	var page journal.Page
	var p pageReader
	var refused error
	err := s.view(ctx, name, func(sp *space) {
		p, refused = pageReader{store: s, q: q}, nil
		if sp == nil {
			refused = journal.Head{Space: name}.Resume(q.After)
			return
		}
		if refused = sp.head.Resume(q.After); refused == nil {
			p.choose(sp)
		}
	}, func() (err error) {
		if refused != nil {
			return refused
		}
		page, err = p.read(ctx)
		return err
	})
	if err != nil {
		return journal.Page{}, fmt.Errorf("read %s: %w", name, err)
	}
	return page, nil
}

// Heads implements [journal.Backend].
func (s *Store) Heads(ctx context.Context, spaces ...string) ([]journal.Head, error) {
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("heads: %w", err)
	}
	heads := make([]journal.Head, len(spaces))
	for i, name := range spaces {
		heads[i].Space = name
		err := s.view(ctx, name, func(sp *space) {
			if sp != nil {
				heads[i] = cloneHead(sp.head)
			}
		}, nil)
		if err != nil {
			return nil, fmt.Errorf("heads: %s: %w", name, err)
		}
	}
	return heads, nil
}

// Spaces implements [journal.Backend]. Notes say when a space is due; a space with an
// incomplete note counts as due.
func (s *Store) Spaces(ctx context.Context, q journal.SpacesQuery) ([]string, error) {
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("spaces: %w", err)
	}
	if err := s.refresh(); err != nil {
		return nil, fmt.Errorf("spaces: %w", s.explain(err))
	}
	if err := s.finishBegun(ctx); err != nil {
		return nil, fmt.Errorf("spaces: %w", s.explain(err))
	}
	limit := journal.PageLimit(q.Limit)
	var names []string
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.notes.Ascend(q.After, func(name string, n note) bool {
		if name != q.After && !n.Gone && !n.Began && (q.DueBy.IsZero() || n.dueBy(q) || s.incomplete[name]) {
			names = append(names, name)
		}
		return len(names) < limit
	})
	return names, nil
}

func (n *note) dueBy(q journal.SpacesQuery) bool {
	return n.Last.IsZero() || !n.Due.IsZero() && !n.Due.After(q.DueBy)
}
