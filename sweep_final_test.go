package thole_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
)

// Another store may have accepted a record that is larger or more deeply nested than
// this one allows.
func TestARecordThatDoesNotFitIntoAnEventStillEndsWithOne(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for what, c := range map[string]struct {
		value string
		cut   bool
	}{
		"as deep as a record": {deep(journal.MaxDepth), false},
		"deeper":              {deep(journal.MaxEventDepth), true},
		"as large as a value": {`"` + strings.Repeat("x", thole.MaxValueBytes-2) + `"`, true},
	} {
		b, clock := memstore.New(), &wall{t: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		s, err := thole.Open(t.Context(), b, &thole.Options{Now: clock.now, Sweep: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		res, err := b.Commit(t.Context(), []thole.Commit{{Space: "user:1", Now: clock.now(), Writes: []thole.Write{
			{Key: "app/x", Value: json.RawMessage(c.value), Expires: clock.now().Add(time.Minute), Notify: true},
			{Key: "app/x/below", Value: json.RawMessage(c.value)},
		}}})
		if err != nil || res[0].Conflict != nil {
			t.Fatal(res, err)
		}
		clock.add(time.Hour)
		if err := s.Sweep(t.Context()); err != nil {
			t.Errorf("%s: sweep: %v", what, err)
		}
		page, err := s.Space("user:1").Read(t.Context(), thole.ReadQuery{Types: []string{"app.expired"}})
		if err != nil || len(page.Events) != 1 {
			t.Fatalf("%s: got %d events, %v; want one", what, len(page.Events), err)
		}
		var final thole.Expired
		if err := page.Events[0].As(&final); err != nil || final.Cut != c.cut || (string(final.Value) == c.value) == c.cut {
			t.Errorf("%s: got cut %v, %d bytes, %v; want cut %v", what, final.Cut, len(final.Value), err, c.cut)
		}
		if n := left(t, s.Space("user:1"), "app/"); n != 0 {
			t.Errorf("%s: %d records are left", what, n)
		}
	}
}

func TestARecordStaysWhoseEndIsRefused(t *testing.T) {
	for _, refusal := range []error{thole.ErrInvalid, thole.ErrTooLarge} {
		clock := &wall{t: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		s := open(t, with(&thole.Options{Now: clock.now, Sweep: -1}, ending("thing", func(context.Context, *thole.Space, thole.Record) error {
			return fmt.Errorf("%w: its own event", refusal)
		})))
		sp := s.Space("user:1")
		putFor(t, sp, "thing/x", 1, time.Minute, true)
		clock.add(time.Hour)
		_ = s.Sweep(t.Context())
		if n := left(t, sp, "thing/"); n != 1 {
			t.Errorf("%v: the record is gone, without its event", refusal)
		}
	}
}
