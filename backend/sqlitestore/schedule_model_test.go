package sqlitestore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/thole-dev/thole"
)

// world is what a store must hold: the model that schedules check against. Its
// positions are all of anEpoch, because that of a space which a failed commit
// may have created is not known; realm.Epoch is "" until it is.
type world map[string]*realm

// realm is a space in a world.
type realm struct {
	Epoch   string
	Oldest  uint64
	Last    uint64
	Events  []thole.Event
	Records map[string]thole.Record
}

func (w world) clone() world {
	out := make(world, len(w))
	for name, r := range w {
		c := *r
		c.Events, c.Records = slices.Clone(r.Events), maps.Clone(r.Records)
		out[name] = &c
	}
	return out
}

// anEpoch stands for a space's only one.
const anEpoch = "epoch"

func at(seq uint64) thole.Position { return thole.Position{Epoch: anEpoch, Seq: seq} }

// version returns the position of a stream's last event.
func (r *realm) version(stream string) thole.Position {
	for i := len(r.Events) - 1; i >= 0; i-- {
		if r.Events[i].Stream == stream {
			return r.Events[i].Position
		}
	}
	return thole.Position{}
}

// commit applies c, whose checks have no epochs, and returns its result.
func (w world) commit(c thole.Commit) (thole.Result, error) {
	r := w[c.Space]
	if r == nil {
		r = &realm{Oldest: 1, Records: map[string]thole.Record{}}
	}
	conflict, err := c.Conflict(
		func(stream string) (thole.Position, error) { return r.version(stream), nil },
		func(key string) (thole.Record, error) { return r.Records[key], nil })
	if err != nil || conflict != nil {
		return thole.Result{Conflict: conflict}, err
	}
	w[c.Space] = r
	result := thole.Result{}
	for i, e := range c.Events {
		e.Position, e.Time, e.Actor, e.Cause = at(r.Last+uint64(i)+1), c.Now, c.Actor, c.Cause
		r.Events = append(r.Events, e)
		result.First = at(r.Last + 1)
	}
	r.Last += uint64(max(1, len(c.Events)))
	result.Last = at(r.Last)
	for _, put := range c.Writes {
		if put.Value == nil {
			delete(r.Records, put.Key)
			continue
		}
		r.Records[put.Key] = thole.Record{Key: put.Key, Value: put.Value, Schema: put.Schema, Version: at(r.Last),
			Updated: c.Now, Expires: put.Expires, Notify: put.Notify}
	}
	return result, nil
}

func (w world) purge(name string, p thole.Purge) {
	r := w[name]
	switch {
	case p.All:
		delete(w, name)
	case !p.Before.IsZero():
		r.Oldest = max(r.Oldest, p.Before.Seq)
		r.Events = slices.DeleteFunc(r.Events, func(e thole.Event) bool { return e.Position.Seq < r.Oldest })
	case len(p.Streams) > 0:
		r.Events = slices.DeleteFunc(r.Events, func(e thole.Event) bool { return slices.Contains(p.Streams, e.Stream) })
	}
	for i := range r.Events {
		if slices.ContainsFunc(p.Events, func(p thole.Position) bool { return p.Seq == r.Events[i].Position.Seq }) {
			r.Events[i].Redact()
		}
	}
}

// observe reads all that a store holds.
func observe(ctx context.Context, s thole.Backend) (world, error) {
	names, err := s.Spaces(ctx, thole.SpacesQuery{})
	if err != nil {
		return nil, err
	}
	w := world{}
	for _, name := range names {
		if w[name], err = observeSpace(ctx, s, name); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func observeSpace(ctx context.Context, s thole.Backend, name string) (*realm, error) {
	heads, err := s.Heads(ctx, name)
	if err != nil {
		return nil, err
	}
	h := heads[0]
	r := &realm{Epoch: h.Last.Epoch, Oldest: h.Oldest.Seq, Last: h.Last.Seq, Records: map[string]thole.Record{}}
	strip := func(what string, p *thole.Position) error {
		if p.Epoch != r.Epoch {
			return fmt.Errorf("%s: %s is at %s, the epoch is %s", name, what, *p, r.Epoch)
		}
		p.Epoch = anEpoch
		return nil
	}
	if want := []thole.Epoch{{Name: r.Epoch, First: 1, Last: r.Last}}; !slices.Equal(h.Epochs, want) || h.Oldest.Epoch != r.Epoch {
		return nil, fmt.Errorf("%s: head: got %+v, want one epoch %+v", name, h, want)
	}
	for q := (thole.ReadQuery{}); ; {
		page, err := s.Read(ctx, name, q)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Events {
			if err := strip("event", &e.Position); err != nil {
				return nil, err
			}
			r.Events = append(r.Events, e)
		}
		if q.After = page.Next; q.After.IsZero() {
			break
		}
	}
	for q := (thole.ListQuery{Limit: 100}); ; {
		page, err := s.List(ctx, name, q)
		if err != nil {
			return nil, err
		}
		for _, rec := range page {
			if err := strip("record "+rec.Key, &rec.Version); err != nil {
				return nil, err
			}
			q.After, r.Records[rec.Key] = rec.Key, rec
		}
		if len(page) < q.Limit {
			return r, nil
		}
	}
}

// differs says where got is not want; nil if it is the same. Epochs that were
// not known are then.
func (want world) differs(got world) error {
	for name := range got {
		if want[name] == nil {
			return fmt.Errorf("space %s: it exists, with %d positions; want none", name, got[name].Last)
		}
	}
	for name, w := range want {
		g := got[name]
		if g == nil {
			return fmt.Errorf("space %s: it does not exist; want %d positions", name, w.Last)
		}
		if err := w.differs(g); err != nil {
			return fmt.Errorf("space %s: %w", name, err)
		}
	}
	for name := range want {
		want[name].Epoch = got[name].Epoch
	}
	return nil
}

func (w *realm) differs(g *realm) error {
	switch {
	case w.Epoch != "" && w.Epoch != g.Epoch:
		return fmt.Errorf("epoch: got %s, want %s", g.Epoch, w.Epoch)
	case w.Oldest != g.Oldest || w.Last != g.Last:
		return fmt.Errorf("head: got %d…%d, want %d…%d", g.Oldest, g.Last, w.Oldest, w.Last)
	case len(w.Records) != len(g.Records):
		return fmt.Errorf("records: got %q, want %q", slices.Sorted(maps.Keys(g.Records)), slices.Sorted(maps.Keys(w.Records)))
	}
	for i := range min(len(w.Events), len(g.Events)) {
		if err := sameEvent(g.Events[i], w.Events[i]); err != nil {
			return err
		}
	}
	if len(w.Events) != len(g.Events) {
		return fmt.Errorf("events: got %d, want %d", len(g.Events), len(w.Events))
	}
	for key := range w.Records {
		if got, want := g.Records[key], w.Records[key]; !reflect.DeepEqual(got, want) {
			return fmt.Errorf("record %s: got %.200s, want %.200s", key, text(got), text(want))
		}
	}
	return nil
}

func sameEvent(got, want thole.Event) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("event: got %.200s, want %.200s", text(got), text(want))
	}
	return nil
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
