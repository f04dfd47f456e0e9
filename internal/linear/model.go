package linear

import (
	"math"
	"time"
)

// state is what a part is at one moment: a comparable value. step returns the
// state after op, or false if op could not have happened so in this state. One
// without an answer always could: then it changed the state or did nothing.
type state interface {
	step(op *Op) (state, bool)
}

// initial is the state of a part before its first operation.
func initial(k Kind) state {
	switch k {
	case Record:
		return record{}
	case Lock:
		return lock{}
	case Line:
		return line{}
	}
	return nil
}

// unseen is the version or token of something whose Put, Acquire or Claim had no
// answer: nobody knows it yet.
const unseen = "?"

// slack is by how much clocks may differ that tell when a lease has run out.
const slack = 100 * time.Millisecond

// record is a value under a key. Reads are linearizable with writes: the library
// reads a record from the backend each time, never from memory (Space.Get; what
// a Space.Update reads from memory is checked again before it counts), and all
// that answer for one backend share one current state.
type record struct {
	version, value string // "": absent
	last           string // newest version that anyone was told
}

func (s record) step(op *Op) (state, bool) {
	if op.Do == Get {
		if s.version == unseen && op.Value == s.value && op.Version > s.last {
			return record{op.Version, s.value, op.Version}, true // now it is known
		}
		return s, op.Version == s.version && op.Value == s.value
	}
	holds := op.If == Anyway || op.If == s.version || op.If == Absent && s.version == ""
	if op.Outcome == Refused {
		return s, !holds
	}
	after := record{last: s.last}
	if op.Do == Put {
		after.version, after.value = op.Version, op.Value
	}
	switch {
	case op.Outcome == Unknown && !holds:
		return s, true
	case op.Outcome == Unknown && op.Do == Put:
		after.version = unseen
	case op.Do == Put:
		after.last = op.Version
		return after, holds && op.Version > s.last
	}
	return after, holds
}

// lease is who holds something for a while: nobody, the holder of a token, or
// somebody without an answer. One that ran out goes on until it is replaced.
type lease struct {
	token string        // "": nobody
	until time.Duration // not before then it may be taken away
	last  string        // newest token that anyone was told
}

// over reports whether the lease may have run out before op returned.
func (l lease) over(op *Op) bool { return op.Outcome == Unknown || l.until <= op.Return+slack }

// taken is the lease after op took it.
func (l lease) taken(op *Op) lease {
	if op.Outcome == Unknown {
		return lease{unseen, op.Call + op.TTL, l.last}
	}
	return lease{op.Version, op.Call + op.TTL, op.Version}
}

// freed is the lease after its end.
func (l lease) freed() lease { return lease{last: l.last} }

// lock has one holder at a time. Who is fenced stays so: tokens only grow.
type lock struct{ lease }

func (s lock) step(op *Op) (state, bool) {
	mine := s.token != "" && s.token == op.If
	switch op.Do {
	case Acquire:
		switch free := s.token == "" || s.over(op); {
		case op.Outcome == Refused:
			return s, s.token != ""
		case op.Outcome == Unknown && !free:
			return s, true
		default:
			return lock{s.taken(op)}, free && (op.Outcome == Unknown || op.Version > s.last)
		}
	case Release:
		switch {
		case op.Outcome == Refused:
			return s, s.token != "" && !mine
		case mine:
			return lock{s.freed()}, true
		case op.Outcome == Unknown:
			return s, true
		}
		return lock{s.freed()}, s.token == "" || s.over(op) // releasing what nobody has is fine
	case Write:
		switch {
		case op.Outcome == Done:
			return s, mine
		case mine: // fenced: then the lease was ended in the meantime
			return lock{s.freed()}, s.over(op)
		}
		return s, true
	}
	return s, false
}

// forever is when an operation without an answer ends.
const forever = math.MaxInt64
