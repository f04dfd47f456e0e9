package journal

import (
	"fmt"
	"slices"
)

// Epoch is a part of a space's history in which no acknowledged commit was lost. A
// cursor in it can resume at any sequence from First−1 to Last.
type Epoch struct {
	Name    string `json:"epoch"`
	First   uint64 `json:"first"`             // sequence of its first commit
	Last    uint64 `json:"last"`              // sequence of its newest commit
	Adopted bool   `json:"adopted,omitempty"` // it began because something other than a commit changed the space
}

// Head says where a space's journal begins and ends. For a space that does not exist,
// Last is zero.
type Head struct {
	Space  string   `json:"space"`
	Oldest Position `json:"oldest"` // the first position that is kept; cursors that need earlier ones are trimmed
	Last   Position `json:"last"`   // position of the newest commit
	Epochs []Epoch  `json:"epochs"` // in order; the last one is current
}

// Adopted returns the name of the newest adopted epoch, or "".
func (h Head) Adopted() string {
	for _, e := range slices.Backward(h.Epochs) {
		if e.Adopted {
			return e.Name
		}
	}
	return ""
}

// Resume returns nil if a reader that has seen everything up to p can continue without
// a gap, else a *TrimmedError that says why not. The zero Position stands for the start
// of what is kept and can always be resumed.
func (h Head) Resume(p Position) error {
	if p.IsZero() {
		return nil
	}
	trimmed := func(reason string) error {
		return &TrimmedError{Space: h.Space, Cursor: p, Oldest: h.Oldest, Last: h.Last, Reason: reason}
	}
	for _, e := range h.Epochs {
		if e.Name != p.Epoch {
			continue
		}
		switch {
		case p.Seq > e.Last:
			return trimmed("beyond the end of its epoch")
		case p.Seq+1 < e.First:
			return trimmed("before the start of its epoch")
		case p.Seq+1 < h.Oldest.Seq:
			return trimmed("older than what is kept")
		}
		return nil
	}
	return trimmed("of an epoch that is not kept")
}

// Advance moves the head past the commit c and returns the commit's positions. A head
// without epochs gets its first one, of generation 1. The engine's largest sequence
// number for a space is last, at most MaxSeq; for a commit beyond it Advance returns
// ErrFull and leaves the head unchanged.
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

// Trim moves Oldest forward to before, for [Purge]. A position before Oldest changes
// nothing. A position that cannot be resumed is a *TrimmedError.
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
		if (Position{Epoch: e.Name, Seq: e.Last}).Check() != nil || e.Name == "" {
			return invalidf("the head's epoch %.40q is not 4 digits and 8 hex digits", e.Name)
		}
		if e.First == 0 || e.First > e.Last+1 {
			return invalidf("the head's epoch %s is from %d to %d", e.Name, e.First, e.Last)
		}
		if i > 0 && (e.Name <= h.Epochs[i-1].Name || e.First != h.Epochs[i-1].Last+1) {
			return invalidf("the head's epoch %s does not follow %s", e.Name, h.Epochs[i-1].Name)
		}
		// Trim sets Oldest to a position from just before an epoch's first commit to
		// its last one; in the newest epoch also to the one after the last.
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

// Holds reports whether a commit of the space took the position p.
func (h *Head) Holds(p Position) bool {
	return slices.ContainsFunc(h.Epochs, func(e Epoch) bool {
		return e.Name == p.Epoch && e.First <= p.Seq && p.Seq <= e.Last
	})
}
