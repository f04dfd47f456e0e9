package fanout

import (
	"context"
	"errors"
	"slices"

	"github.com/thole-dev/thole/journal"
)

// This file adds the commits of other processes to the hubs. The Store calls CatchUp
// with all watched spaces at regular intervals, and with the spaces of Hinted when Wake
// receives.

// Hint requests that a space be caught up soon; "" means all spaces.
func (f *Fanout) Hint(space string) {
	f.hintMu.Lock()
	f.hinted[space] = true
	f.hintMu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Wake returns a channel that receives when Hinted may return spaces.
func (f *Fanout) Wake() <-chan struct{} { return f.wake }

// Hinted returns the watched spaces for which Hint was called since the last Hinted.
func (f *Fanout) Hinted() []string {
	f.hintMu.Lock()
	hinted := f.hinted
	f.hinted = make(map[string]bool)
	f.hintMu.Unlock()
	names := f.Spaces()
	if !hinted[""] {
		names = slices.DeleteFunc(names, func(n string) bool { return !hinted[n] })
	}
	return names
}

// postpone calls Hint for a space when the current batch has ended.
func (f *Fanout) postpone(space string) {
	f.hintMu.Lock()
	defer f.hintMu.Unlock()
	f.later = append(f.later, space)
}

// BatchEnded is called after Committed, when [Source].Busy no longer returns the batch.
func (f *Fanout) BatchEnded() {
	f.hintMu.Lock()
	later := f.later
	f.later = nil
	f.hintMu.Unlock()
	for _, space := range later {
		f.Hint(space)
	}
}

// CatchUp reads new events from the journals of the spaces into their hubs.
func (f *Fanout) CatchUp(ctx context.Context, spaces []string) {
	type known struct {
		*hub // this hub, not a later one of the same space
		at   state
	}
	hubs := make(map[string]known, len(spaces))
	var begun []string // skip the others: their backends may not answer
	for _, name := range spaces {
		if h := f.find(name); h != nil {
			if at := h.state(); at.begun {
				hubs[name], begun = known{h, at}, append(begun, name)
			}
		}
	}
	if len(begun) == 0 {
		return
	}
	heads, damaged, err := f.source.Heads(ctx, begun)
	for _, name := range damaged {
		f.Reset(name) // each watcher finds out from its own position
	}
	if err != nil {
		if ctx.Err() == nil {
			f.log.Warn("polling heads failed; will try again", "error", err)
		}
		return
	}
	for _, head := range heads {
		h, at := hubs[head.Space].hub, hubs[head.Space].at
		if h == nil {
			continue
		}
		if at.gone(head) {
			h.reset() // each watcher finds out from its own position
			continue
		}
		more, wait := h.beyond(head.Last)
		if wait {
			continue
		}
		var err error
		if more {
			err = errors.Join(h.catchUp(ctx, at, head.Last), h.checkErased(ctx))
		}
		switch {
		case err == nil:
			h.release(at)
		case errors.Is(err, journal.ErrTrimmed):
			h.reset()
		case ctx.Err() == nil:
			f.log.Warn("following a journal failed; will try again", "space", head.Space, "error", err)
		}
	}
}

// catchUp reads the events after at, up to last and beyond, into the hub.
func (h *hub) catchUp(ctx context.Context, at state, last journal.Position) error {
	for after := at.head; ; {
		page, err := h.fanout.source.Read(ctx, h.space, journal.ReadQuery{After: after, Limit: 256})
		if err != nil {
			return err
		}
		if !h.append(at.era, page, last) || page.Next.IsZero() {
			return nil
		}
		after = page.Next
	}
}

// checkErased begins a new era if there was a purge since the last call.
func (h *hub) checkErased(ctx context.Context) error {
	erased, err := h.fanout.source.Erased(ctx, h.space)
	if err != nil {
		return err
	}
	h.mu.Lock()
	stale := h.checked && h.erased != erased
	h.erased, h.checked = erased, true
	h.mu.Unlock()
	if stale {
		h.reset()
	}
	return nil
}
