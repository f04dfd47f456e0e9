package journal

import "iter"

// Purge names what to remove from a space. Exactly one field is set, except that UpTo
// may accompany Streams: a stream with events after UpTo keeps those and its version.
// If the space never had the position UpTo, for example because it was deleted and
// created again, nothing is removed.
type Purge struct {
	All     bool       // the whole space; committing to it again starts a new epoch
	Before  Position   // events before it; it becomes the head's Oldest
	Streams []string   // all events of these streams, which then count as absent
	UpTo    Position   // for Streams: only events up to this position; zero: all
	Events  []Position // the data, actor, cause, subject and refs of these events; position, type, stream and time stay
}

// Chunk is a part of an imported space. Events are in order within and across chunks;
// records may be in any order.
type Chunk struct {
	Head    Head
	Events  []Event
	Records []Record
	Done    bool
}

// Through returns the sequence number up to which p removes the events of its Streams
// from the space with head h; 0: none are removed.
func (p *Purge) Through(h Head) uint64 {
	switch {
	case p.UpTo.IsZero():
		return MaxSeq
	case h.Holds(p.UpTo):
		return p.UpTo.Seq
	}
	return 0
}

// maxLoaded is the largest sequence number that can be imported. It leaves half of all
// sequence numbers for later commits.
const maxLoaded = MaxSeq / 2

// Validate returns ErrInvalid unless the epochs of c are well-formed, in order and
// contiguous, its head ends where the newest epoch ends and begins inside one, every
// event is inside an epoch, not before the head's oldest position and after the event
// before it, and the version of every record is inside an epoch.
func (c *Chunk) Validate() error {
	if err := c.Head.validate(); err != nil {
		return err
	}
	last := uint64(0)
	for i := range c.Events {
		at := c.Events[i].Position
		switch {
		case !c.Head.Holds(at):
			return invalidf("event at %q is outside of the head's epochs", at)
		case at.Seq < c.Head.Oldest.Seq:
			return invalidf("event at %q is before the head's oldest, %q", at, c.Head.Oldest)
		case at.Seq <= last:
			return invalidf("event at %q is not after the one before it", at)
		}
		last = at.Seq
	}
	for i := range c.Records {
		if r := &c.Records[i]; !c.Head.Holds(r.Version) {
			return invalidf("version %q of %s is outside of the head's epochs", r.Version, r.Key)
		}
	}
	return nil
}

// Names iterates over every key and stream that c names.
func (c *Chunk) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range c.Events {
			if !yield(c.Events[i].Stream) {
				return
			}
		}
		for i := range c.Records {
			if !yield(c.Records[i].Key) {
				return
			}
		}
	}
}
