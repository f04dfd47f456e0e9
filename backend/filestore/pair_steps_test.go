package filestore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/backend/backendtest/model"
	"github.com/thole-dev/thole/journal"
)

// offer is a batch, with its results.
type offer struct {
	on      *side
	batch   []journal.Commit
	results []journal.Result
	err     error
	raced   bool        // the first commit has the same check as the other side's
	stale   []time.Time // times of the commits whose checks do not hold
}

func (p *pair) offer(on *side, n int, checked bool) *offer {
	o := &offer{on: on}
	for range n {
		p.ids++
		c := journal.Commit{Space: pairSpaces[p.rand.IntN(len(pairSpaces))], Now: time.Unix(int64(p.ids), 0).UTC(), Actor: "agent:a"}
		for i := range p.rand.IntN(4) {
			c.Events = append(c.Events, journal.Event{Stream: fmt.Sprint("s", p.rand.IntN(3)), Type: "x.made", Data: fmt.Appendf(nil, `"%d.%d"`, p.ids, i)})
		}
		for _, key := range p.rand.Perm(5)[:p.rand.IntN(4)] {
			w := journal.Write{Key: fmt.Sprint("k/", key)}
			if p.rand.IntN(3) > 0 {
				w.Value = fmt.Appendf(nil, `{"id":%d,"text":%q}`, p.ids, strings.Repeat("x", p.rand.IntN(80)))
				if p.rand.IntN(3) == 0 {
					w.Expires = someday
				}
			}
			c.Writes = append(c.Writes, w)
		}
		if len(c.Events) == 0 { // a commit without events writes a record that identifies it
			c.Writes = append(c.Writes, journal.Write{Key: fmt.Sprint("mark/", p.ids), Value: fmt.Appendf(nil, "%d", p.ids)})
		}
		first := !slices.ContainsFunc(o.batch, func(b journal.Commit) bool { return b.Space == c.Space })
		if w, ok := p.past[c.Space].certain(); ok && checked && first && w[c.Space] != nil {
			s := w[c.Space]
			key := fmt.Sprint("k/", p.rand.IntN(5))
			c.Checks = []journal.Check{{Key: key, At: s.Records[key].Version}, {Stream: "s1", At: s.Version("s1")}}
			for i := range c.Checks {
				w.Place(c.Space, &c.Checks[i].At)
			}
			if s.Epoch == "" {
				c.Checks = nil
			} else if s.Last > 1 && p.rand.IntN(4) == 0 { // it must fail, and the other commits must succeed
				p.stale(&c, s)
				o.stale = append(o.stale, c.Now)
			}
		}
		o.batch = append(o.batch, c)
	}
	return o
}

func (o *offer) make(ctx context.Context) { o.results, o.err = o.on.Commit(ctx, o.batch) }

// deeds returns what the offer did to a space; after ErrFull, nothing.
func (o *offer) deeds(space string) (deeds []deed) {
	for i := range o.batch {
		c := o.batch[i]
		if c.Space != space || errors.Is(o.err, journal.ErrFull) || slices.Contains(o.stale, c.Now) {
			continue
		}
		d := deed{commit: &c, sure: o.err == nil}
		if d.sure {
			d.result = o.results[i]
		}
		if d.result.Conflict != nil || d.result.Err != nil {
			continue
		}
		if o.raced && i == 0 {
			if c.Checks = slices.Clone(c.Checks); !c.Checks[0].At.IsZero() {
				c.Checks[0].At = model.At(c.Checks[0].At.Seq)
			}
		} else {
			c.Checks = nil
		}
		deeds = append(deeds, d)
	}
	return deeds
}

// told records the results of the offers.
func (p *pair) told(offers ...*offer) error {
	for _, o := range offers {
		p.did["batches"]++
		p.log("%s: commit %s: %v", o.on.name, shown(o.batch, o.results), o.err)
		if o.err == nil && o.on.stopped {
			return errors.New("a commit succeeded after the store had said that it stopped")
		}
		o.on.stopped = o.on.stopped || o.err != nil && strings.Contains(o.err.Error(), "stopped, because its disk failed")
		if o.err != nil {
			p.did["batches that failed"]++
			continue
		}
		for i, r := range o.results {
			if err := p.answered(o, i, r); err != nil {
				return err
			}
		}
	}
	for _, name := range pairSpaces {
		h := p.past[name]
		var order []deed
		sure := true
		for _, o := range offers {
			order = append(order, o.deeds(name)...)
			sure = sure && o.err == nil
		}
		switch {
		case len(order) == 0:
			continue
		case sure:
			slices.SortStableFunc(order, func(a, b deed) int { return int(a.result.Last.Seq) - int(b.result.Last.Seq) })
			h.turns = append(h.turns, turn{order})
		case len(offers) == 1:
			h.turns = append(h.turns, turn{order})
		default:
			h.turns = append(h.turns, turn{order, append(offers[1].deeds(name), offers[0].deeds(name)...)})
		}
	}
	return nil
}

func shown(batch []journal.Commit, results []journal.Result) (text string) {
	for i, c := range batch {
		text += fmt.Sprintf("[%s %v events %d writes %d", c.Space, c.Now.Unix(), len(c.Events), len(c.Writes))
		if results != nil {
			text += fmt.Sprint(" at ", results[i].Last)
		}
		text += "]"
	}
	return text
}

func (p *pair) answered(o *offer, i int, r journal.Result) error {
	on, c := o.on, &o.batch[i]
	switch stale := slices.Contains(o.stale, c.Now); {
	case r.Err != nil: // its journal cannot be opened; nothing of it is applied
		p.did["commits refused"]++
		return nil
	case stale && r.Conflict == nil:
		return fmt.Errorf("%s: commit %d to %s was applied at %v although its checks do not hold: %v", on.name, c.Now.Unix(), c.Space, r.Last, c.Checks)
	case stale:
		p.did["stale checks refused"]++
		return nil
	case r.Conflict != nil && o.raced && i == 0:
		return nil
	case r.Conflict != nil:
		return fmt.Errorf("%s: commit %d to %s, whose checks hold: got %v", on.name, c.Now.Unix(), c.Space, r.Conflict)
	}
	p.did["commits acknowledged"]++
	h := p.past[c.Space]
	on.seen[c.Space] = r.Last
	if len(c.Events) == 0 {
		return h.give(r.Last, fmt.Sprintf("commit %d", c.Now.Unix()))
	}
	for i, e := range c.Events {
		at := r.Last
		at.Seq -= uint64(len(c.Events) - 1 - i)
		if err := h.give(at, string(e.Data)); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) commit(s *side) error {
	o := p.offer(s, 1+p.rand.IntN(3), true)
	o.make(p.Context())
	if err := p.told(o); err != nil {
		return err
	}
	return p.limitDoubts()
}

// both commits through both sides at once.
func (p *pair) both() error {
	a, err := p.on(0)
	if err != nil {
		return err
	}
	b, err := p.on(1)
	if err != nil || p.sides[0] != a {
		return err
	}
	ours, theirs := p.offer(a, 1+p.rand.IntN(2), false), p.offer(b, 1+p.rand.IntN(2), false)
	p.race(ours, theirs)
	done := make(chan struct{})
	go func() {
		defer close(done)
		theirs.make(p.Context())
	}()
	ours.make(p.Context())
	<-done
	p.did["at once"]++
	if err := p.won(ours, theirs); err != nil {
		return err
	}
	if err := p.told(ours, theirs); err != nil {
		return err
	}
	return p.limitDoubts()
}

// limitDoubts finds out what happened before too much is in doubt.
func (p *pair) limitDoubts() error {
	for _, name := range pairSpaces {
		if p.past[name].doubts() > 5 {
			return p.verify()
		}
	}
	return nil
}

// look reads a space through a side: it never goes back, and every position shows the
// commit that was given it.
func (p *pair) look(s *side) error {
	p.did["looks"]++
	name := pairSpaces[p.rand.IntN(len(pairSpaces))]
	heads, err := s.Heads(p.Context(), name)
	if err == nil {
		last := heads[0].Last
		if had := s.seen[name]; had.Epoch == last.Epoch && last.Seq < had.Seq {
			return fmt.Errorf("%s shows %s up to %v, after it showed %v", s.name, name, last, had)
		}
		s.seen[name] = last
	}
	var page journal.Page
	if err == nil {
		page, err = s.Read(p.Context(), name, journal.ReadQuery{})
	}
	if err == nil {
		_, err = s.List(p.Context(), name, journal.ListQuery{})
	}
	p.log("%s: look at %s: %v", s.name, name, err)
	var path *fs.PathError
	if errors.Is(err, journal.ErrCorrupt) && !errors.As(err, &path) {
		return fmt.Errorf("%s: look at %s: %w", s.name, name, err)
	}
	for i, e := range page.Events {
		if i > 0 && e.Position.Seq <= page.Events[i-1].Position.Seq {
			return fmt.Errorf("%s: %s has %v after %v", s.name, name, e.Position, page.Events[i-1].Position)
		}
		if to, known := p.past[name].given[e.Position]; known && e.Data != nil && string(e.Data) != to {
			return fmt.Errorf("%s: %s has %s at %v, which was given to %s", s.name, name, e.Data, e.Position, to)
		}
	}
	return nil
}

// certainly returns a space about which nothing is in doubt.
func (p *pair) certainly(name string) (*model.Space, error) {
	w, ok := p.past[name].certain()
	if !ok {
		if err := p.verify(); err != nil {
			return nil, err
		}
		if w, ok = p.past[name].certain(); !ok {
			return nil, fmt.Errorf("space %s is still in doubt", name)
		}
	}
	return w[name], nil
}

func (p *pair) purge(s *side) error {
	name := pairSpaces[p.rand.IntN(len(pairSpaces))]
	is, err := p.certainly(name)
	if err != nil || is == nil || !slices.Contains(p.sides[:], s) {
		return err
	}
	pu, what := journal.Purge{}, ""
	switch n := p.rand.IntN(10); {
	case n < 4:
		pu.Before, what = model.At(is.Oldest+p.rand.Uint64N(is.Last+2-is.Oldest)), "trims"
	case n < 6:
		pu.Streams, what = []string{"s1"}, "streams removed"
		if p.rand.IntN(2) == 0 {
			pu.UpTo = model.At(1 + p.rand.Uint64N(is.Last))
		}
	case n < 8:
		for range 2 {
			if len(is.Events) > 0 {
				pu.Events = append(pu.Events, is.Events[p.rand.IntN(len(is.Events))].Position)
			}
		}
		what = "redactions"
		if len(pu.Events) == 0 {
			return nil
		}
	default:
		pu.All, what = true, "spaces removed"
	}
	d := deed{purge: &pu}
	asked := pu
	asked.Events = slices.Clone(pu.Events)
	epoch := is.Epoch
	if epoch == "" {
		return nil
	}
	if !pu.Before.IsZero() {
		asked.Before.Epoch = epoch
	}
	if !pu.UpTo.IsZero() {
		asked.UpTo.Epoch = epoch
	}
	for i := range asked.Events {
		asked.Events[i].Epoch = epoch
	}
	p.disk.Fail(pairRates)
	err = s.Purge(p.Context(), name, asked)
	p.log("%s: purge %s %+v: %v", s.name, name, asked, err)
	if errors.Is(err, journal.ErrNotFound) {
		return fmt.Errorf("%s: purge of %s, which is there: %w", s.name, name, err)
	}
	if d.sure = err == nil; d.sure {
		p.did[what]++
	}
	p.past[name].turns = append(p.past[name].turns, turn{{d}})
	return p.limitDoubts()
}

// load imports a space, in one chunk or two.
func (p *pair) load(s *side) error {
	name := pairSpaces[p.rand.IntN(len(pairSpaces))]
	is, err := p.certainly(name)
	if err != nil || !slices.Contains(p.sides[:], s) {
		return err
	}
	if is != nil && p.rand.IntN(2) == 0 { // so that it can be imported
		p.disk.Fail(nil)
		err := s.Purge(p.Context(), name, journal.Purge{All: true})
		p.past[name].turns = append(p.past[name].turns, turn{{{purge: &journal.Purge{All: true}, sure: err == nil}}})
		if err != nil {
			s.stopped = true // a file that was written in the background met a fault
			return p.limitDoubts()
		}
		p.did["spaces removed"]++
		is = nil
	}
	c := p.chunk(name)
	first := *c
	p.disk.Fail(pairRates)
	if p.rand.IntN(2) == 0 && len(c.Events) > 1 {
		first.Events, first.Records, first.Done = c.Events[:1], nil, false
		if err = s.Load(p.Context(), name, first); err == nil {
			first = *c
		}
	}
	if err == nil {
		first.Done = true
		err = s.Load(p.Context(), name, first)
	}
	p.log("%s: load %s up to %v: %v", s.name, name, c.Head.Last, err)
	if exists := errors.Is(err, journal.ErrExists); is != nil && (exists || err != nil) {
		return nil
	} else if is != nil || exists {
		return fmt.Errorf("%s: load %s, which is there: %v: got %v", s.name, name, is != nil, err)
	}
	if err == nil {
		p.did["imports"]++
		s.seen[name] = c.Head.Last
	}
	if err == nil || first.Done {
		p.past[name].turns = append(p.past[name].turns, turn{{deed{load: c, sure: err == nil}}})
	}
	return p.limitDoubts()
}

// chunk returns a whole import: a space with gaps in its journal, whose beginning was
// trimmed.
func (p *pair) chunk(name string) *journal.Chunk {
	last := 3 + p.rand.Uint64N(8)
	epoch := journal.NewEpoch(1)
	pos := func(seq uint64) journal.Position { return journal.Position{Epoch: epoch, Seq: seq} }
	c := &journal.Chunk{Head: journal.Head{Space: name, Oldest: pos(1 + p.rand.Uint64N(last)), Last: pos(last), Epochs: []journal.Epoch{{Name: epoch, First: 1, Last: last}}}}
	for seq := c.Head.Oldest.Seq; seq <= last; seq++ {
		p.ids++
		if p.rand.IntN(4) > 0 {
			c.Events = append(c.Events, journal.Event{Position: pos(seq), Stream: fmt.Sprint("s", p.rand.IntN(3)), Type: "x.made", Time: time.Unix(int64(p.ids), 0).UTC(), Data: fmt.Appendf(nil, `"%d.0"`, p.ids)})
		}
	}
	for key := range p.rand.IntN(5) {
		c.Records = append(c.Records, journal.Record{Key: fmt.Sprint("k/", key), Value: fmt.Appendf(nil, `{"id":%d,"text":""}`, p.ids), Version: pos(1 + p.rand.Uint64N(last)), Updated: time.Unix(int64(p.ids), 0).UTC()})
	}
	return c
}

// verify reads everything through both sides, on a disk without faults, and compares it
// with what was acknowledged.
func (p *pair) verify() error {
	p.did["verifications"]++
	p.disk.Fail(nil)
	for _, i := range p.rand.Perm(2) {
		if err := p.verifySide(i); err != nil {
			return fmt.Errorf("through %s: %w", string("AB"[i]), err)
		}
	}
	return nil
}

func (p *pair) verifySide(i int) error {
	s, err := p.on(i)
	if err != nil {
		return err
	}
	if s.stopped {
		p.close(i)
		if s, err = p.on(i); err != nil {
			return err
		}
	}
	due, err := dueSpaces(p.Context(), s.Store) // before anything else looks at a space
	p.did["notes that lacked something"] += s.Unsure()
	if err == nil {
		err = p.look(s)
	}
	if err == nil {
		err = s.Check(p.Context())
	}
	if err != nil && strings.Contains(err.Error(), "stopped, because its disk failed") {
		s.stopped = true
		return p.verifySide(i)
	}
	if err != nil {
		return err
	}
	got, err := model.Observe(p.Context(), s)
	if err != nil {
		return err
	}
	p.log("%s: verify", s.name)
	for _, name := range pairSpaces {
		if err := p.past[name].settle(got[name]); err != nil {
			return err
		}
		for _, r := range recordsOf(got[name]) {
			if r.Expires.IsZero() {
				continue
			}
			if !slices.Contains(due, name) {
				return fmt.Errorf("space %s holds %s, which expires at %v, and is not due: %v are", name, r.Key, r.Expires, due)
			}
			p.did["expiring records in due spaces"]++
		}
	}
	return nil
}

func recordsOf(s *model.Space) map[string]journal.Record {
	if s == nil {
		return nil
	}
	return s.Records
}
