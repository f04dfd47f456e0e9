package thole

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file holds what every backend would otherwise decide for itself: which
// event, record or check matches, how a head moves, and how to watch by polling.

// PageLimit returns how many items a page with the given Limit may hold: 1…MaxPage.
func PageLimit(limit int) int {
	if limit <= 0 || limit > MaxPage {
		return MaxPage
	}
	return limit
}

// Match reports whether e is selected by all fields of q but After, Backward
// and Limit. Before compares whole positions.
func (q ReadQuery) Match(e Event) bool {
	switch {
	case q.Stream != "" && q.Stream != e.Stream,
		!q.Before.IsZero() && e.Position.Compare(q.Before) >= 0,
		q.Actor != "" && q.Actor != e.Actor,
		q.Subject != "" && q.Subject != e.Subject,
		!q.Since.IsZero() && e.Time.Before(q.Since),
		!q.Until.IsZero() && !e.Time.Before(q.Until):
		return false
	}
	return MatchType(q.Types, e.Type)
}

// MatchType reports whether typ is one of types, of which "noun.*" stands for
// any verb. No types match everything.
func MatchType(types []string, typ string) bool {
	if len(types) == 0 {
		return true
	}
	return slices.ContainsFunc(types, func(t string) bool {
		if noun, ok := strings.CutSuffix(t, "*"); ok && strings.HasSuffix(noun, ".") {
			return strings.HasPrefix(typ, noun)
		}
		return t == typ
	})
}

// Match reports whether r is selected by all fields of q but Limit.
func (q ListQuery) Match(r Record) bool {
	return strings.HasPrefix(r.Key, q.Prefix) &&
		(q.After == "" || r.Key > q.After) &&
		(q.DueBy.IsZero() || r.Expired(q.DueBy))
}

// Conflict evaluates the commit's checks, then its writes, against what is
// there: nil when all of them hold, else the first that does not. The two
// functions look up a stream's version and a record (zero when absent; expired
// ones as they are); an error of theirs is returned as it is.
func (c *Commit) Conflict(stream func(name string) (Position, error), record func(key string) (Record, error)) (*ConflictError, error) {
	for _, k := range c.Checks {
		conflict := &ConflictError{Space: c.Space, Check: k}
		if k.Key == "" {
			at, err := stream(k.Stream)
			if err != nil {
				return nil, err
			}
			conflict.Actual = at
		} else {
			r, err := record(k.Key)
			if err != nil {
				return nil, err
			}
			expired := r.Exists() && r.Expired(c.Now)
			conflict.Expired = expired && r.Notify
			if !expired || r.Notify {
				conflict.Actual = r.Version
			}
		}
		if conflict.Expired || conflict.Actual != k.At {
			return conflict, nil
		}
	}
	for i := range c.Writes {
		key := c.Writes[i].Key
		r, err := record(key)
		if err != nil {
			return nil, err
		}
		if r.Exists() && r.Notify && r.Expired(c.Now) {
			return &ConflictError{Space: c.Space, Check: Check{Key: key}, Actual: r.Version, Expired: true}, nil
		}
	}
	return nil, nil
}

// Advance moves the head over a commit of c and returns the commit's positions.
// A head without epochs gets a first one of generation 1. ErrFull for a commit
// beyond the last position, up to MaxSeq, that the engine has for a space: the head
// stays as it is.
func (h *Head) Advance(c *Commit, last uint64) (Result, error) {
	if n := uint64(max(1, len(c.Events))); h.Last.Seq > last || n > last-h.Last.Seq {
		return Result{}, fmt.Errorf("%w: the space has room for %d positions and no more; go on in another space", ErrFull, last)
	}
	if len(h.Epochs) == 0 {
		epoch := NewEpoch(1)
		h.Space = c.Space
		h.Oldest = Position{Epoch: epoch, Seq: 1}
		h.Epochs = []Epoch{{Name: epoch, First: 1}}
	}
	current := &h.Epochs[len(h.Epochs)-1]
	first := Position{Epoch: current.Name, Seq: h.Last.Seq + 1}
	end := Position{Epoch: current.Name, Seq: h.Last.Seq + uint64(max(1, len(c.Events)))}
	h.Last, current.Last = end, end.Seq
	if len(c.Events) == 0 {
		return Result{Last: end}, nil
	}
	return Result{First: first, Last: end}, nil
}

// Trim moves Oldest up to before, for [Purge]. A position that is older than
// Oldest changes nothing; one that the head does not resume is a TrimmedError.
func (h *Head) Trim(before Position) error {
	if before.Seq <= h.Oldest.Seq {
		return nil
	}
	if before.Seq != h.Last.Seq+1 || before.Epoch != h.Last.Epoch {
		if err := h.Resume(before); err != nil {
			return fmt.Errorf("trim %s: %w", h.Space, err)
		}
	}
	h.Oldest = before
	return nil
}

// Through returns the sequence number up to which p removes the events of its
// Streams from the space with head h; 0: nothing goes.
func (p *Purge) Through(h Head) uint64 {
	switch {
	case p.UpTo.IsZero():
		return MaxSeq
	case h.holds(p.UpTo):
		return p.UpTo.Seq
	}
	return 0
}

// maxLoaded is the largest sequence number that is imported: half of all, so that
// those left last for as long as a space may be committed to.
const maxLoaded = MaxSeq / 2

// Validate returns ErrInvalid for a chunk that no backend loads: its epochs are not
// well-formed, in order and one behind the other, its head does not end where the
// newest one does or begins in none, an event or a record has a position that lies
// in none or before the head's oldest, or events are not in order.
func (c *Chunk) Validate() error {
	if err := c.Head.validate(); err != nil {
		return err
	}
	last := uint64(0)
	for i := range c.Events {
		at := c.Events[i].Position
		switch {
		case !c.Head.holds(at):
			return invalidf("event at %q is outside of the head's epochs", at)
		case at.Seq < c.Head.Oldest.Seq:
			return invalidf("event at %q is before the head's oldest, %q", at, c.Head.Oldest)
		case at.Seq <= last:
			return invalidf("event at %q is not after the one before it", at)
		}
		last = at.Seq
	}
	for i := range c.Records {
		if r := &c.Records[i]; !c.Head.holds(r.Version) {
			return invalidf("version %q of %s is outside of the head's epochs", r.Version, r.Key)
		}
	}
	return nil
}

func (h *Head) validate() error {
	if len(h.Epochs) == 0 {
		return invalidf("the head has no epoch")
	}
	newest := h.Epochs[len(h.Epochs)-1]
	if h.Last != (Position{Epoch: newest.Name, Seq: newest.Last}) || newest.Last < newest.First {
		return invalidf("the head's last position %q is not the end of its newest epoch", h.Last)
	}
	if h.Last.Seq > maxLoaded {
		return invalidf("the head's last position %q leaves too few for commits; the largest that can be loaded is %d", h.Last, uint64(maxLoaded))
	}
	begins := false
	for i, e := range h.Epochs {
		if (Position{Epoch: e.Name, Seq: e.Last}).check() != nil || e.Name == "" {
			return invalidf("the head's epoch %.40q is not 4 digits and 8 hex digits", e.Name)
		}
		if e.First == 0 || e.First > e.Last+1 {
			return invalidf("the head's epoch %s is from %d to %d", e.Name, e.First, e.Last)
		}
		if i > 0 && (e.Name <= h.Epochs[i-1].Name || e.First != h.Epochs[i-1].Last+1) {
			return invalidf("the head's epoch %s does not follow %s", e.Name, h.Epochs[i-1].Name)
		}
		// Trim leaves a position from before the first commit of an epoch to its last;
		// of the newest one the position after the last, too.
		end := e.Last
		if i == len(h.Epochs)-1 {
			end++
		}
		begins = begins || h.Oldest.Epoch == e.Name && h.Oldest.Seq+1 >= e.First && h.Oldest.Seq <= end
	}
	if !begins || h.Oldest.Seq == 0 {
		return invalidf("the head's oldest position %q is in none of its epochs", h.Oldest)
	}
	return nil
}

// holds reports whether a commit of the space had the position.
func (h *Head) holds(p Position) bool {
	return slices.ContainsFunc(h.Epochs, func(e Epoch) bool {
		return e.Name == p.Epoch && e.First <= p.Seq && p.Seq <= e.Last
	})
}

// Redact removes from e what may say something about a person. Position,
// stream, type, time and schema stay.
func (e *Event) Redact() {
	e.Actor, e.Cause, e.Subject, e.Refs, e.Data = "", "", "", nil, nil
}

// WatchCount is [Watcher] for a backend that can only count what others were seen
// to do: it asks at every interval and calls wake("") when the count is another
// one. It returns nil when ctx ends or closed is closed.
func WatchCount(ctx context.Context, closed <-chan struct{}, interval time.Duration, count func() uint64, wake func(space string)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	seen := count()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		case <-closed:
			return nil
		}
		if now := count(); now != seen {
			seen = now
			wake("")
		}
	}
}
