package filestore_test

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/thole-dev/thole/backend/backendtest/model"
	"github.com/thole-dev/thole/journal"
)

// past is what was done to a space; some of it may not have happened.
type past struct {
	name  string
	base  *model.Space // the last verified state; nil: there is no space
	turns []turn       // since base
	given map[journal.Position]string
}

// turn is one call, or two concurrent ones: their changes, in the orders that are
// possible.
type turn [][]deed

// deed is one change of a space.
type deed struct {
	commit *journal.Commit
	purge  *journal.Purge
	load   *journal.Chunk
	sure   bool           // it was acknowledged
	result journal.Result // of an acknowledged commit
}

func (d *deed) partly() bool {
	return d.purge != nil && (len(d.purge.Streams) > 0 || len(d.purge.Events) > 0)
}

// do applies the deed to a world. It returns false if the deed cannot have happened so.
func (d *deed) do(w model.World, name string) bool {
	switch {
	case d.load != nil:
		if w[name] != nil {
			return false
		}
		w.Load(name, *d.load)
	case d.purge != nil:
		if w[name] == nil {
			return !d.sure
		}
		w.Purge(name, *d.purge)
	default:
		want, err := w.Commit(*d.commit)
		if err != nil {
			return false
		}
		return !d.sure || w.Expect(name, d.result, want) == nil
	}
	return true
}

// certain returns the state of the space if nothing is in doubt.
func (p *past) certain() (model.World, bool) {
	w := p.before()
	for _, t := range p.turns {
		if len(t) > 1 {
			return nil, false
		}
		for i := range t[0] {
			if d := &t[0][i]; !d.sure || !d.do(w, p.name) {
				return nil, false
			}
		}
	}
	return w, true
}

func (p *past) before() model.World {
	if p.base == nil {
		return model.World{}
	}
	return model.World{p.name: p.base}.Clone()
}

// doubts counts the changes that may or may not have happened.
func (p *past) doubts() (n int) {
	for _, t := range p.turns {
		for _, order := range t {
			for i := range order {
				if !order[i].sure {
					n++
				}
			}
		}
	}
	return n
}

// settle decides from the state of the space which changes happened.
func (p *past) settle(got *model.Space) error {
	e := explanation{past: p, got: got}
	if !e.from(p.before(), p.turns, nil) {
		if e.closest == nil {
			e.closest = fmt.Errorf("the acknowledged commits do not fit together")
		}
		return fmt.Errorf("space %s: %w", p.name, e.closest)
	}
	p.base, p.turns = got, nil
	return nil
}

// explanation searches for changes that lead to the state of the space.
type explanation struct {
	*past
	got     *model.Space
	closest error
}

// half is a purge that may have been applied in part, up to a seq.
type half struct {
	*journal.Purge
	upTo uint64
}

func (e *explanation) from(w model.World, turns []turn, halves []half) bool {
	if len(turns) == 0 {
		return e.fits(w, halves)
	}
	return slices.ContainsFunc(turns[0], func(order []deed) bool { return e.along(w, order, turns[1:], halves) })
}

func (e *explanation) along(w model.World, order []deed, rest []turn, halves []half) bool {
	if len(order) == 0 {
		return e.from(w, rest, halves)
	}
	d := &order[0]
	if !d.sure {
		with := halves
		if s := w[e.name]; d.partly() && s != nil {
			upTo := s.Last
			if !d.purge.UpTo.IsZero() {
				upTo = d.purge.UpTo.Seq
			}
			with = append(slices.Clip(halves), half{d.purge, upTo})
		}
		if e.along(w, order[1:], rest, with) {
			return true
		}
		if d.partly() {
			return false
		}
	}
	next := w.Clone()
	return d.do(next, e.name) && e.along(next, order[1:], rest, halves)
}

func (e *explanation) fits(w model.World, halves []half) bool {
	want := w[e.name]
	switch {
	case want == nil && e.got == nil:
		return true
	case want == nil || e.got == nil:
		e.closest = fmt.Errorf("it exists: %v; want %v", e.got != nil, want != nil)
		return false
	}
	want = model.World{e.name: want}.Clone()[e.name]
	want.Events = slices.DeleteFunc(want.Events, func(ev journal.Event) bool {
		there := slices.ContainsFunc(e.got.Events, func(g journal.Event) bool { return g.Position.Seq == ev.Position.Seq })
		return !there && slices.ContainsFunc(halves, func(h half) bool {
			return slices.Contains(h.Streams, ev.Stream) && ev.Position.Seq <= h.upTo
		})
	})
	for i, ev := range want.Events {
		redacted := ev
		redacted.Redact()
		named := slices.ContainsFunc(halves, func(h half) bool {
			return slices.ContainsFunc(h.Events, func(at journal.Position) bool { return at.Seq == ev.Position.Seq })
		})
		if named && slices.ContainsFunc(e.got.Events, func(g journal.Event) bool { return reflect.DeepEqual(g, redacted) }) {
			want.Events[i] = redacted
		}
	}
	if err := want.Differs(e.got); err != nil {
		e.closest = err
		return false
	}
	return true
}

// give records which commit has a position, and fails if another one had it.
func (p *past) give(at journal.Position, to string) error {
	if had, ok := p.given[at]; ok && had != to {
		return fmt.Errorf("space %s: position %v was given to %s and then to %s", p.name, at, had, to)
	}
	p.given[at] = to
	return nil
}
