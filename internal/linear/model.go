package linear

import (
	"math"
	"time"
)

// state is the state of a part at one moment, a comparable value. step returns the
// state after op, or false if op could not have had its results in this state. An
// unanswered op is always possible: it changed the state or did nothing.
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

// unseen is the version or token of an unanswered Put, Acquire or Claim, which nobody
// knows yet.
const unseen = "?"

// slack is how much the clocks that decide the expiry of a lease may differ.
const slack = 100 * time.Millisecond

// record is a value under a key. Reads are linearizable with writes: the library
// reads a record from the backend each time, never from memory (Space.Get; Space.Update
// checks again what it reads from memory), and all instances of one backend share one
// current state.
type record struct {
	version, value string // "": absent
	last           string // newest version that a client knows
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

// lease says who holds something for a time: nobody, the holder of a token, or a client
// without an answer. An expired lease stays until it is replaced.
type lease struct {
	token string        // "": nobody
	until time.Duration // from then on another client may take it
	last  string        // newest token that a client knows
}

// over reports whether the lease may have expired before op returned.
func (l lease) over(op *Op) bool { return op.Outcome == Unknown || l.until <= op.Return+slack }

// taken returns the lease after op took it.
func (l lease) taken(op *Op) lease {
	if op.Outcome == Unknown {
		return lease{unseen, op.Call + op.TTL, l.last}
	}
	return lease{op.Version, op.Call + op.TTL, op.Version}
}

// freed returns the lease after its end.
func (l lease) freed() lease { return lease{last: l.last} }

// lock has one holder at a time. A fenced holder stays fenced, since tokens only grow.
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
		return lock{s.freed()}, s.token == "" || s.over(op) // releasing a free lock succeeds
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

// forever is the end of an unanswered operation.
const forever = math.MaxInt64
