package model

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/thole-dev/thole/journal"
)

// Observe reads the whole content of a store.
func Observe(ctx context.Context, s journal.Backend) (World, error) {
	names, err := s.Spaces(ctx, journal.SpacesQuery{})
	if err != nil {
		return nil, err
	}
	w := World{}
	for _, name := range names {
		if w[name], err = ObserveSpace(ctx, s, name); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// ObserveSpace reads the whole content of an existing space.
func ObserveSpace(ctx context.Context, s journal.Backend, name string) (*Space, error) {
	heads, err := s.Heads(ctx, name)
	if err != nil {
		return nil, err
	}
	h := heads[0]
	r := &Space{Epoch: h.Last.Epoch, Oldest: h.Oldest.Seq, Last: h.Last.Seq, Records: map[string]journal.Record{}}
	strip := func(what string, p *journal.Position) error {
		if p.Epoch != r.Epoch {
			return fmt.Errorf("%s: %s is at %s, the epoch is %s", name, what, *p, r.Epoch)
		}
		p.Epoch = anEpoch
		return nil
	}
	if want := []journal.Epoch{{Name: r.Epoch, First: 1, Last: r.Last}}; !slices.Equal(h.Epochs, want) || h.Oldest.Epoch != r.Epoch {
		return nil, fmt.Errorf("%s: head: got %+v, want one epoch %+v", name, h, want)
	}
	for q := (journal.ReadQuery{}); ; {
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
	for q := (journal.ListQuery{Limit: 100}); ; {
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

// Differs returns an error that says where got differs from want, nil if it does not.
// It sets epochs of want that were not known.
func (want World) Differs(got World) error {
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
		if err := w.Differs(g); err != nil {
			return fmt.Errorf("space %s: %w", name, err)
		}
	}
	for name := range want {
		want[name].Epoch = got[name].Epoch
	}
	return nil
}

// Differs returns an error that says where g differs from w, nil if it does not.
func (w *Space) Differs(g *Space) error {
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

func sameEvent(got, want journal.Event) error {
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
