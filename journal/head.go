package journal

import (
	"fmt"
	"slices"
)

// Epoch is one stretch of a space's history without a lost tail. A cursor that
// names it resumes at any sequence from First−1 to Last.
type Epoch struct {
	Name    string `json:"epoch"`
	First   uint64 `json:"first"`             // sequence of its first commit
	Last    uint64 `json:"last"`              // sequence of its newest commit
	Adopted bool   `json:"adopted,omitempty"` // it began because something else than commits changed the space
}

// Head describes a space: what is kept of its journal and where it ends. A
// space that does not exist has a Head with a zero Last.
type Head struct {
	Space  string   `json:"space"`
	Oldest Position `json:"oldest"` // the first position that is kept; cursors before it are trimmed
	Last   Position `json:"last"`   // position of the newest commit
	Epochs []Epoch  `json:"epochs"` // in order; the last one is current
}

// Adopted is the name of the newest epoch that was adopted; "": there is none.
func (h Head) Adopted() string {
	for _, e := range slices.Backward(h.Epochs) {
		if e.Adopted {
			return e.Name
		}
	}
	return ""
}

// Resume reports whether a reader that has seen everything up to p can go on
// without a gap: nil, or a *TrimmedError that says why not. The zero Position
// is the start of whatever is kept and always resumes.
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

// Holds reports whether a commit of the space had the position.
func (h *Head) Holds(p Position) bool {
	return slices.ContainsFunc(h.Epochs, func(e Epoch) bool {
		return e.Name == p.Epoch && e.First <= p.Seq && p.Seq <= e.Last
	})
}
