// Package linear checks recorded histories for linearizability (Herlihy and
// Wing, 1990): whether operations that happened one after the other, each between its
// call and its return, explain what concurrent clients saw.
//
// Clients record what they do in a [History]; [Check] searches for such an order with
// porcupine. It checks each part of a history, such as one key, separately, which
// linearizability allows. Keep a part to a few hundred operations, since the search
// may be exponential in the number of overlapping ones.
//
// An operation without an answer may have happened or not, and may still happen at any
// later time: its outcome is [Unknown] and it has no end.
package linear

import (
	"fmt"
	"sync"
	"time"
)

// Kind is the kind of a part, which determines its operations.
type Kind string

// The kinds of parts.
const (
	Record Kind = "record" // a value under a key: Get, Put, Delete
	Lock   Kind = "lock"   // a lock under a lease: Acquire, Release, Write
	Line   Kind = "line"   // a queue of jobs, one of which runs at a time: Start, Claim, Finish, Look
)

// Verb is what an operation does.
type Verb string

// The operations, with the fields of [Op] that each uses in addition to the common
// ones. After the arrow are its results.
const (
	Get    Verb = "get"    // → Version and Value; "": absent
	Put    Verb = "put"    // If, Value → Version, or Refused: If did not hold
	Delete Verb = "delete" // If → or Refused

	Acquire Verb = "acquire" // TTL → Version is the token, or Refused: another client holds it
	Release Verb = "release" // If is the token → or Refused: it is fenced
	Write   Verb = "write"   // under the token If → or Refused: it is fenced

	Start  Verb = "start"  // Value is the job's number, 0…63
	Claim  Verb = "claim"  // TTL → Value is the number, Version the token
	Finish Verb = "finish" // Value is the number, If the token → or Refused: it has ended, or another client holds it
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
	Crashed   = "crashed" // the lease of its holder expired and the holder was replaced
)

// Outcome is how an operation ended for its client.
type Outcome int

// The outcomes.
const (
	Never   Outcome = iota // it certainly did not happen; it is not recorded
	Done                   // it was acknowledged
	Refused                // a condition did not hold, and nothing changed
	Unknown                // there was no answer
)

// Op is one operation as its client saw it. Versions sort, as text, in the order in
// which they were issued.
type Op struct {
	Kind   Kind
	Part   string // the part it belongs to
	Do     Verb
	Client int

	If      string
	Value   string        // unique among all Puts of a part
	TTL     time.Duration // of a lease: another client may take it this long after the call
	Version string

	Outcome Outcome
	Call    time.Duration // since the history began
	Return  time.Duration // since the history began; meaningless if the outcome is Unknown

	hints *hints // of the part, while it is checked
}

// History records operations. It is safe for concurrent use.
type History struct {
	begin time.Time

	mu  sync.Mutex
	ops []Op
}

// New returns an empty history, which begins now.
func New() *History { return &History{begin: time.Now()} }

// Do calls act, which performs op, fills in its results and returns its outcome. Do
// records the op and returns it.
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

// Ops returns the recorded operations in the order of their returns.
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
