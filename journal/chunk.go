package journal

import "iter"

// Purge names what to remove from a space. Only one of its fields is set, but for
// UpTo, which bounds Streams: a stream with later events keeps them and its version.
// Nothing is removed from a space that never had the position, such as one that was
// made anew meanwhile.
type Purge struct {
	All     bool       // the whole space; committing to it again starts a new epoch
	Before  Position   // events before it; it becomes the head's Oldest
	Streams []string   // all events of these streams; their version becomes absent
	UpTo    Position   // of Streams: only events up to it; zero: all
	Events  []Position // the data, actor, cause, subject and refs of these events; position, type, stream and time stay
}

// Chunk is a part of an imported space. Events come in order over all chunks;
// records in any order.
type Chunk struct {
	Head    Head
	Events  []Event
	Records []Record
	Done    bool
}

// Through returns the sequence number up to which p removes the events of its
// Streams from the space with head h; 0: nothing goes.
func (p *Purge) Through(h Head) uint64 {
	switch {
	case p.UpTo.IsZero():
		return MaxSeq
	case h.Holds(p.UpTo):
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

// Names returns every key and stream that c names.
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
