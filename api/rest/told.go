package rest

import (
	"slices"

	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// told returns an answer with the hidden ids that it names removed or masked. Every
// answer passes through it, so handlers need not do this. Events are masked when they
// are read: see [privacy.maskEvent].
func (p *privacy) told(answer any) any {
	switch v := answer.(type) {
	case interface{ toldTo(*privacy) any }: // a list of answers
		return v.toldTo(p)
	case *run.Run:
		return p.run(v)
	case *thread.Thread:
		return p.thread(v)
	case decision.Decision:
		return p.decision(v)
	case decision.Index:
		return decision.Index{Standing: tellAll(p, v.Standing), Recent: tellAll(p, v.Recent)}
	case file.Entry:
		v.Cause = p.mask(v.Cause)
		return v
	case ClaimedRun:
		v.Run = p.run(v.Run)
		return v
	case LockInfo:
		return p.lock(v)
	}
	return answer
}

func (l page[T]) toldTo(p *privacy) any { return pageOf(tellAll(p, l.Items), l.NextCursor) }

func tellAll[T any](p *privacy, items []T) []T {
	out := slices.Clone(items) // the slice may be shared
	for i, item := range out {
		out[i] = p.told(item).(T)
	}
	return out
}

func (p *privacy) run(r *run.Run) *run.Run {
	v := *r
	if v.Parent != "" && p.hidesRecord("run/"+v.Parent) {
		v.Parent = ""
	}
	v.Error = p.mask(v.Error)
	return &v
}

func (p *privacy) thread(t *thread.Thread) *thread.Thread {
	v := *t
	if v.Parent != "" && p.hidesThread(v.Parent) {
		v.Parent, v.Depth = "", 0
	}
	return &v
}

// decision masks the texts of a decision, but not its input and result: programs act on
// them.
func (p *privacy) decision(d decision.Decision) decision.Decision {
	d.Refs = slices.Clone(d.Refs)
	for i, ref := range d.Refs {
		d.Refs[i] = p.mask(ref)
	}
	for _, text := range []*string{&d.Action, &d.Decision, &d.Rationale, &d.Run, &d.Thread} {
		*text = p.mask(*text)
	}
	return d
}

func (p *privacy) lock(l LockInfo) LockInfo {
	if l.Holder != nil {
		holder := *l.Holder
		holder.Owner = p.mask(holder.Owner)
		l.Holder = &holder
	}
	l.Intents, l.Waiters = slices.Clone(l.Intents), append([]lock.WaiterInfo{}, l.Waiters...)
	for i := range l.Intents {
		l.Intents[i].Owner = p.mask(l.Intents[i].Owner)
	}
	for i := range l.Waiters {
		l.Waiters[i].Owner = p.mask(l.Waiters[i].Owner)
	}
	return l
}
