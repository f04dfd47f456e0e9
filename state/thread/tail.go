package thread

import (
	"slices"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// fact is a decoded event of a thread. It is shared and never changed.
type fact struct {
	pos  thole.Position
	time time.Time
	typ  string
	data any // a pointer to the type's data; nil if redacted
	size int
}

// folded are the types of events that turns are built from.
var folded = []string{"message.*", "tool.*", "thread.rewound", "thread.compacted"}

// factOf decodes an event of one of the folded types.
func factOf(e thole.Event) (fact, error) {
	f := fact{pos: e.Position, time: e.Time, typ: e.Type, size: len(e.Data)}
	if e.Data == nil || string(e.Data) == "null" {
		return f, nil
	}
	switch e.Type {
	case "message.added":
		f.data = new(Added)
	case "message.updated", "tool.started", "tool.completed", "tool.failed":
		f.data = new(Updated)
	case "message.delta":
		f.data = new(Delta)
	case "message.completed":
		f.data = new(Completed)
	case "thread.rewound":
		f.data = new(Rewound)
	case "thread.compacted":
		f.data = new(Compacted)
	default:
		return f, nil // a type of a later version
	}
	return f, e.As(f.data)
}

// newest are the newest facts of a stream, oldest first.
type newest struct {
	facts []fact
	older bool           // there may be facts before these
	next  thole.Position // those are before this position
}

// Bounds of the facts in memory of one thread.
const (
	tailLen   = 128 // facts; twice as many while it rolls forward
	tailBytes = 1 << 20
)

// tail is a projection that keeps a thread's newest facts decoded in memory, so that
// reading the newest window does not read or decode them again.
var tail = thole.Projection[newest]{
	Name: "thread.tail",
	Apply: func(s newest, e thole.Event) (newest, error) {
		if !journal.MatchType(folded, e.Type) {
			return s, nil
		}
		f, err := factOf(e)
		if err != nil {
			return s, err
		}
		out := newest{facts: append(slices.Clip(s.facts), f), older: s.older, next: s.next}
		if len(out.facts) > 2*tailLen || out.size() > tailBytes {
			cut := max(len(out.facts)-tailLen, 1)
			out.facts, out.older = slices.Clone(out.facts[cut:]), true
			out.next = out.facts[0].pos
		}
		return out, nil
	},
	Size: newest.size,
}

func (s newest) size() int {
	n := 0
	for i := range s.facts {
		n += s.facts[i].size + 256
	}
	return n
}
