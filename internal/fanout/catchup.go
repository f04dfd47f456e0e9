package fanout

import (
	"context"
	"errors"
	"slices"

	"github.com/thole-dev/thole/journal"
)

// This file keeps hubs in step with the commits of other processes. The Store calls
// CatchUp every so often with all watched spaces, and with those of Hinted when Wake
// says that there are some.

// Hint asks for a look at a space soon; "" means at all.
func (f *Fanout) Hint(space string) {
	f.hintMu.Lock()
	f.hinted[space] = true
	f.hintMu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Wake has something when Hinted may return spaces.
func (f *Fanout) Wake() <-chan struct{} { return f.wake }

// Hinted returns the watched spaces that were hinted at since the last call.
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

// postpone hints at a space once the batch at hand has ended.
func (f *Fanout) postpone(space string) {
	f.hintMu.Lock()
	defer f.hintMu.Unlock()
	f.later = append(f.later, space)
}

// BatchEnded is called after Committed, when [Source].Busy has changed.
func (f *Fanout) BatchEnded() {
	f.hintMu.Lock()
	later := f.later
	f.later = nil
	f.hintMu.Unlock()
	for _, space := range later {
		f.Hint(space)
	}
}

// CatchUp reads into the hubs of the spaces what the journals have beyond them.
func (f *Fanout) CatchUp(ctx context.Context, spaces []string) {
	type known struct {
		*hub // it, not one that takes its place meanwhile
		at   place
	}
	places := make(map[string]known, len(spaces))
	var begun []string // the others may be of spaces of which no backend answers
	for _, name := range spaces {
		if h := f.find(name); h != nil {
			if at := h.place(); at.begun {
				places[name], begun = known{h, at}, append(begun, name)
			}
		}
	}
	if len(begun) == 0 {
		return
	}
	heads, damaged, err := f.source.Heads(ctx, begun)
	for _, name := range damaged {
		f.Reset(name) // each watcher finds out from its own place
	}
	if err != nil {
		if ctx.Err() == nil {
			f.log.Warn("polling heads failed; will try again", "error", err)
		}
		return
	}
	for _, head := range heads {
		h, at := places[head.Space].hub, places[head.Space].at
		if h == nil {
			continue
		}
		if at.gone(head) {
			h.reset() // each watcher finds out from its own place
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
			h.looked(at)
		case errors.Is(err, journal.ErrTrimmed):
			h.reset()
		case ctx.Err() == nil:
			f.log.Warn("following a journal failed; will try again", "space", head.Space, "error", err)
		}
	}
}

// catchUp reads what is between at and last, and what came after it.
func (h *hub) catchUp(ctx context.Context, at place, last journal.Position) error {
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

// checkErased begins a new era if there was a purge since the hub last looked.
func (h *hub) checkErased(ctx context.Context) error {
	erased, err := h.fanout.source.Erased(ctx, h.space)
	if err != nil {
		return err
	}
	h.mu.Lock()
	stale := h.looks > 0 && h.erased != erased
	h.looks++
	h.erased = erased
	h.mu.Unlock()
	if stale {
		h.reset()
	}
	return nil
}
