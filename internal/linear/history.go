// Package linear checks recorded histories for linearizability (Herlihy and
// Wing, 1990): that what concurrent clients saw could have come from operations
// that happened one after the other, each between its call and its return.
//
// Clients record what they do in a [History]; [Check] looks for such an order
// with porcupine. A history falls into parts, such as one key, that are checked
// on their own, which linearizability allows; keep a part to a few hundred
// operations, since the search may be exponential in how many overlap.
//
// An operation without an answer may have happened or not, and may still happen
// at any time after: its outcome is [Unknown] and it has no end.
package linear

import (
	"fmt"
	"sync"
	"time"
)

// Kind says what a part is, and with it which operations it has.
type Kind string

// The kinds of parts.
const (
	Record Kind = "record" // a value under a key: Get, Put, Delete
	Lock   Kind = "lock"   // a lock under a lease: Acquire, Release, Write
	Line   Kind = "line"   // a queue of jobs of which one at a time is worked on: Start, Claim, Finish, Look
)

// Verb is what an operation does.
type Verb string

// The operations, with the fields of [Op] that each uses besides those of all.
const (
	Get    Verb = "get"    // → Version and Value; "": absent
	Put    Verb = "put"    // If, Value → Version, or Refused: If was not so
	Delete Verb = "delete" // If → or Refused

	Acquire Verb = "acquire" // TTL → Version is the token, or Refused: another has it
	Release Verb = "release" // If is the token → or Refused: it is fenced
	Write   Verb = "write"   // under the token If → or Refused: it is fenced

	Start  Verb = "start"  // Value is the job's number, 0…63
	Claim  Verb = "claim"  // TTL → Value is the number, Version the token
	Finish Verb = "finish" // Value is the number, If the token → or Refused: it has ended, or is another's
	Look   Verb = "look"   // Value is the number → Version is its state
)

// Conditions of a Put or Delete, in Op.If, besides a version.
const (
	Anyway = ""       // whatever is there
	Absent = "absent" // nothing is there
)

// States of a job, in Op.Version of a Look.
const (
	Queued    = "queued"
	Running   = "running"
	Succeeded = "succeeded"
	Crashed   = "crashed" // its holder let the lease run out and was replaced
)

// Outcome is how an operation ended for its client.
type Outcome int

// The outcomes.
const (
	Never   Outcome = iota // it surely did not happen and says nothing; it is not recorded
	Done                   // it was acknowledged
	Refused                // a condition did not hold, and nothing changed
	Unknown                // there was no answer
)

// Op is one operation as its client saw it. Versions are text that sorts in the
// order in which they were given out.
type Op struct {
	Kind   Kind
	Part   string // what it is about
	Do     Verb
	Client int

	If      string
	Value   string        // unique among all Puts of a part
	TTL     time.Duration // of a lease: not before this after its call another may take it
	Version string

	Outcome Outcome
	Call    time.Duration // since the history began
	Return  time.Duration // after it; without meaning when the outcome is Unknown

	hints *hints // of the part, while it is checked
}

// History records operations. It is safe for concurrent use.
type History struct {
	begin time.Time

	mu  sync.Mutex
	ops []Op
}

// New returns an empty history that begins now.
func New() *History { return &History{begin: time.Now()} }

// Do records op, which act carries out: it fills in what op gave and returns how
// it ended. Do returns what act did.
func (h *History) Do(op Op, act func(op *Op) Outcome) Op {
	op.Call = time.Since(h.begin)
	op.Outcome = act(&op)
	op.Return = time.Since(h.begin)
	if op.Outcome == Never || op.Outcome == Unknown && !op.changes() {
		return op
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
	return op
}

// changes reports whether the operation may change its part.
func (op *Op) changes() bool { return op.Do != Get && op.Do != Look && op.Do != Write }

// Ops returns what was recorded so far, in the order of the returns.
func (h *History) Ops() []Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ops[:len(h.ops):len(h.ops)]
}

func (op Op) String() string {
	in := string(op.Do)
	if op.Value != "" && op.Do != Get && op.Do != Claim {
		in += " " + op.Value
	}
	if op.If != "" {
		in += " if " + op.If
	}
	switch op.Outcome {
	case Refused:
		return in + " → refused"
	case Unknown:
		return in + " → ?"
	}
	switch op.Do {
	case Get, Claim:
		if op.Version == "" {
			return in + " → nothing"
		}
		return fmt.Sprintf("%s → %s at %s", in, op.Value, op.Version)
	case Put, Acquire, Look:
		return in + " → " + op.Version
	}
	return in + " → done"
}
