package thole

import (
	"context"
	"errors"
	"slices"
	"time"
)

// poll keeps hubs in step with writers in other processes: on every hint, and
// every so often without one.
func (s *Store) poll(ctx context.Context) {
	workers := s.commits.Workers(func(_ int, names []string) []string {
		for part := range slices.Chunk(names, 500) {
			s.follow(ctx, part)
		}
		return nil
	})
	tick := time.NewTicker(s.opts.Poll)
	defer tick.Stop()
	for {
		var names []string
		select {
		case <-ctx.Done():
			return
		case <-s.hubs.wake:
			names = s.hubs.hints()
		case <-tick.C:
			names = s.hubs.names()
		}
		workers.Do(&s.tasks, names)
	}
}

// follow reads into each hub what the journal has beyond it.
func (s *Store) follow(ctx context.Context, names []string) {
	type known struct {
		*hub // it, not one that takes its place meanwhile
		at   place
	}
	places := make(map[string]known, len(names))
	var begun []string // the others may be of spaces of which no backend answers
	for _, name := range names {
		if h := s.hubs.find(name); h != nil {
			if at := h.place(); at.begun {
				places[name], begun = known{h, at}, append(begun, name)
			}
		}
	}
	if len(begun) == 0 {
		return
	}
	heads, err := s.Heads(ctx, begun...)
	for _, name := range damaged(err) {
		s.hubs.reset(name) // each watcher finds out from its own place
	}
	if reached(err) != nil {
		if ctx.Err() == nil {
			s.log.Warn("polling heads failed; will try again", "error", err)
		}
		return
	}
	for _, head := range heads {
		h, at := places[head.Space].hub, places[head.Space].at
		if h == nil {
			continue
		}
		if at.gone(head) {
			s.hubs.reset(head.Space) // each watcher finds out from its own place
			continue
		}
		more, wait := h.beyond(head.Last)
		if wait {
			continue
		}
		var err error
		if more {
			err = errors.Join(h.follow(ctx, at, head.Last), h.forget(ctx))
		}
		switch {
		case err == nil:
			h.looked(at)
		case errors.Is(err, ErrTrimmed):
			s.hubs.reset(head.Space)
		case ctx.Err() == nil:
			s.log.Warn("following a journal failed; will try again", "space", head.Space, "error", err)
		}
	}
}

// follow reads what is between at and last, and what came after it.
func (h *hub) follow(ctx context.Context, at place, last Position) error {
	for after := at.head; ; {
		page, err := h.space.Read(ctx, ReadQuery{After: after, Limit: 256})
		if err != nil {
			return err
		}
		if !h.append(at.era, page, last) || page.Next.IsZero() {
			return nil
		}
		after = page.Next
	}
}

// append pushes those events of a page that the hub does not have, unless its
// era is over.
func (h *hub) append(era int, page Page, last Position) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.era != era {
		return false
	}
	for _, e := range page.Events {
		// An epoch that began since may be an adopted one, and an event that was
		// committed since may be of this Store, behind broadcasts that wait.
		if e.Position.Epoch > last.Epoch || len(h.held) > 0 && e.Position.Compare(last) > 0 {
			h.space.store.hubs.hint(h.space.name)
			h.announce()
			return false
		}
		if e.Position.Compare(h.known) > 0 {
			h.overtake()
			h.push(&Delivery{Event: e})
			h.known = e.Position
			h.settle()
		}
	}
	// Commits without events moved the head and left nothing to read.
	if page.Next.IsZero() && last.Compare(h.known) > 0 {
		h.known = last
		h.settle()
	}
	h.announce()
	return true
}
