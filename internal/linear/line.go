package linear

import (
	"cmp"
	"slices"
	"strconv"
)

// line is a first-in first-out queue of jobs. One job at a time is claimed under a
// lease and finished once. A job whose lease expired may crash and make room for the
// next; its holder can no longer finish it.
type line struct {
	lease              // of the claimed job
	job         int    // the claimed job
	stays       bool   // the claimed job was finished, so it did not crash
	queue       string // numbers of the waiting jobs, one byte each
	started     int    // number of jobs so far
	done, crash uint64 // sets of jobs that ended
}

// hints are what the rest of a part says about an operation on a line. They exclude
// states early that could not be explained later. Without them, the search would guess
// the order of two jobs that were queued concurrently, notice a wrong guess only when
// they are claimed, and multiply such guesses.
type hints struct {
	jobs   int    // number of jobs in the part
	claims uint64 // set of jobs with an answered claim
	turns  []int  // of each job, the rank of that claim: 1 is the first; 0: none
	lost   int    // claims without an answer; each may have taken a job without a turn
	stays  uint64 // set of jobs with an answered finish
}

// hinted returns the operations of a line with their hints. It omits operations that
// constrain nothing: the start of a job that does not appear again, and a second
// finish.
func hinted(part []Op) []Op {
	h := &hints{turns: make([]int, 64)}
	var looked uint64
	var claims []Op
	for _, op := range part {
		job := number(&op)
		switch {
		case op.Do == Claim && op.Outcome == Unknown:
			h.lost++
		case job < 0:
		case op.Do == Claim:
			claims = append(claims, op)
			h.claims |= 1 << job
		case op.Do == Finish && op.Outcome == Done:
			h.stays |= 1 << job
		case op.Do == Look:
			looked |= 1 << job
		}
	}
	slices.SortFunc(claims, func(a, b Op) int { return cmp.Compare(a.Version, b.Version) })
	for i, op := range claims {
		if job := number(&op); h.turns[job] == 0 {
			h.turns[job] = i + 1
		}
	}
	var out []Op
	for _, op := range part {
		if job := number(&op); op.Outcome == Unknown && job >= 0 {
			if op.Do == Start && (h.claims|looked)&(1<<job) == 0 || op.Do == Finish && h.stays&(1<<job) != 0 {
				continue
			}
		}
		if op.Do == Start {
			h.jobs++
		}
		op.hints = h
		out = append(out, op)
	}
	return out
}

// number returns the job that op is about, -1 if there is none or it is not known.
func number(op *Op) int {
	n, err := strconv.Atoi(op.Value)
	if err != nil || n < 0 || n > 63 {
		return -1
	}
	return n
}

func (s line) step(op *Op) (state, bool) {
	job := number(op)
	if op.Do == Claim {
		return s.claim(op, job)
	}
	if job < 0 {
		return s, false
	}
	held := s.token != "" && s.job == job
	switch op.Do {
	case Start:
		return s.start(op, job)
	case Finish:
		mine := held && s.token == op.If
		switch {
		case mine && op.Outcome == Refused:
			return s.crashed(), s.gone(op)
		case mine:
			s.done |= 1 << job
			s.lease = s.freed()
			return s, true
		}
		return s, op.Outcome != Done
	case Look:
		switch op.Version {
		case Queued:
			return s, slices.Contains([]byte(s.queue), byte(job))
		case Running:
			return s, held
		case Succeeded:
			return s, s.done&(1<<job) != 0
		case Crashed:
			if held && s.gone(op) {
				s = s.crashed()
			}
			return s, s.crash&(1<<job) != 0
		}
	}
	return s, false
}

// start queues a job behind those with an earlier turn, and those that an unanswered
// claim may have taken.
func (s line) start(op *Op, job int) (state, bool) {
	turn, lost := op.hints.turns[job], 0
	for _, before := range []byte(s.queue) {
		switch t := op.hints.turns[before]; {
		case t == 0:
			lost++
		case turn != 0 && t > turn:
			return s, false
		}
	}
	if turn != 0 && lost > op.hints.lost {
		return s, false
	}
	s.queue += string([]byte{byte(job)})
	s.started++
	return s, true
}

// claim takes the first job of the queue; if necessary, the claimed job crashes first.
// An unanswered claim took a job that no answered claim took, or none; then it may as
// well have come after all others.
func (s line) claim(op *Op, job int) (state, bool) {
	unknown := op.Outcome == Unknown
	if s.queue == "" {
		return s, unknown && s.started == op.hints.jobs
	}
	first := int(s.queue[0])
	if s.token != "" && !s.gone(op) {
		return s, false
	}
	switch {
	case unknown && op.hints.turns[first] != 0:
		return s, false
	case !unknown && (first != job || op.Version <= s.last):
		return s, false
	}
	if s.token != "" {
		s = s.crashed()
	}
	s.queue, s.job, s.lease = s.queue[1:], first, s.taken(op)
	s.stays = op.hints.stays&(1<<first) != 0
	return s, true
}

// gone reports whether the claimed job may have crashed before op returned.
func (s line) gone(op *Op) bool { return !s.stays && s.over(op) }

func (s line) crashed() line {
	s.crash |= 1 << s.job
	s.lease = s.freed()
	return s
}
