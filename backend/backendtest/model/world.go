// Package model checks backends under schedules of random work: it has a simple model
// of what a backend must hold, and reads what it does hold.
package model

import (
	"fmt"
	"maps"
	"slices"

	"github.com/thole-dev/thole/journal"
)

// World is the expected content of a store. All its positions are in one artificial
// epoch. The real epoch of a space that a failed commit may have created is not known
// at first; Space.Epoch is "" until it is.
type World map[string]*Space

// Space is a space of a World.
type Space struct {
	Epoch   string
	Oldest  uint64
	Last    uint64
	Events  []journal.Event
	Records map[string]journal.Record
}

// Clone returns a copy that shares only immutable parts.
func (w World) Clone() World {
	out := make(World, len(w))
	for name, r := range w {
		c := *r
		c.Events, c.Records = slices.Clone(r.Events), maps.Clone(r.Records)
		out[name] = &c
	}
	return out
}

// anEpoch stands for the only epoch of a space.
const anEpoch = "epoch"

// At returns the position of a seq in the artificial epoch.
func At(seq uint64) journal.Position { return journal.Position{Epoch: anEpoch, Seq: seq} }

// Version returns the position of a stream's last event.
func (r *Space) Version(stream string) journal.Position {
	for i := len(r.Events) - 1; i >= 0; i-- {
		if r.Events[i].Stream == stream {
			return r.Events[i].Position
		}
	}
	return journal.Position{}
}

// Commit applies c, whose checks have no epochs, and returns its result.
func (w World) Commit(c journal.Commit) (journal.Result, error) {
	r := w[c.Space]
	if r == nil {
		r = &Space{Oldest: 1, Records: map[string]journal.Record{}}
	}
	conflict, err := c.Conflict(
		func(stream string) (journal.Position, error) { return r.Version(stream), nil },
		func(key string) (journal.Record, error) { return r.Records[key], nil })
	if err != nil || conflict != nil {
		return journal.Result{Conflict: conflict}, err
	}
	w[c.Space] = r
	result := journal.Result{}
	for i, e := range c.Events {
		e.Position, e.Time, e.Actor, e.Cause = At(r.Last+uint64(i)+1), c.Now, c.Actor, c.Cause
		r.Events = append(r.Events, e)
		result.First = At(r.Last + 1)
	}
	r.Last += uint64(max(1, len(c.Events)))
	result.Last = At(r.Last)
	for _, put := range c.Writes {
		if put.Value == nil {
			delete(r.Records, put.Key)
			continue
		}
		r.Records[put.Key] = journal.Record{Key: put.Key, Value: put.Value, Schema: put.Schema, Version: At(r.Last),
			Updated: c.Now, Expires: put.Expires, Notify: put.Notify}
	}
	return result, nil
}

// Purge removes what p names from a space that exists; p has no epochs.
func (w World) Purge(name string, p journal.Purge) {
	r := w[name]
	switch {
	case p.All:
		delete(w, name)
	case !p.Before.IsZero():
		r.Oldest = max(r.Oldest, p.Before.Seq)
		r.Events = slices.DeleteFunc(r.Events, func(e journal.Event) bool { return e.Position.Seq < r.Oldest })
	case len(p.Streams) > 0:
		through := r.Last
		if !p.UpTo.IsZero() {
			through = p.UpTo.Seq
		}
		r.Events = slices.DeleteFunc(r.Events, func(e journal.Event) bool {
			return e.Position.Seq <= through && slices.Contains(p.Streams, e.Stream)
		})
	}
	for i := range r.Events {
		if slices.ContainsFunc(p.Events, func(p journal.Position) bool { return p.Seq == r.Events[i].Position.Seq }) {
			r.Events[i].Redact()
		}
	}
}

// Load adds a complete import, whose head has one epoch.
func (w World) Load(name string, c journal.Chunk) {
	r := &Space{Epoch: c.Head.Last.Epoch, Oldest: c.Head.Oldest.Seq, Last: c.Head.Last.Seq, Records: map[string]journal.Record{}}
	for _, e := range c.Events {
		e.Position.Epoch = anEpoch
		r.Events = append(r.Events, e)
	}
	for _, rec := range c.Records {
		rec.Version.Epoch = anEpoch
		r.Records[rec.Key] = rec
	}
	w[name] = r
}

// Placed returns the batch for the store: with the real epochs in its checks.
func (w World) Placed(batch []journal.Commit) []journal.Commit {
	out := slices.Clone(batch)
	for i := range out {
		out[i].Checks = slices.Clone(out[i].Checks)
		for k := range out[i].Checks {
			w.Place(out[i].Space, &out[i].Checks[k].At)
		}
	}
	return out
}

// Place sets the real epoch in a position of a space.
func (w World) Place(name string, p *journal.Position) {
	if !p.IsZero() {
		p.Epoch = w[name].Epoch
	}
}

// Expect checks a result, and takes the epoch of a new space from it.
func (w World) Expect(space string, got, want journal.Result) error {
	if (got.Conflict == nil) != (want.Conflict == nil) {
		return fmt.Errorf("conflict: got %v, want %v", got.Conflict, want.Conflict)
	}
	if got.Conflict != nil {
		return nil
	}
	r := w[space]
	if r.Epoch == "" {
		r.Epoch = got.Last.Epoch
	}
	w.Place(space, &want.First)
	w.Place(space, &want.Last)
	if got != want {
		return fmt.Errorf("result: got %+v, want %+v", got, want)
	}
	return nil
}

// Answer checks a page against what the space holds.
func (r *Space) Answer(q journal.ReadQuery, page journal.Page) error {
	var want []journal.Event
	for _, e := range r.Events {
		if q.Match(e) {
			want = append(want, e)
		}
	}
	if q.Backward {
		slices.Reverse(want)
	}
	want = want[:min(len(want), journal.PageLimit(q.Limit))]
	if len(page.Events) > len(want) || page.Next.IsZero() && len(page.Events) < len(want) {
		return fmt.Errorf("read %+v: got %d events, want %d", q, len(page.Events), len(want))
	}
	for i, got := range page.Events {
		if got.Position.Epoch != r.Epoch {
			return fmt.Errorf("read %+v: got an event at %s, want epoch %s", q, got.Position, r.Epoch)
		}
		got.Position.Epoch = anEpoch
		if err := sameEvent(got, want[i]); err != nil {
			return fmt.Errorf("read %+v: %w", q, err)
		}
	}
	return nil
}
