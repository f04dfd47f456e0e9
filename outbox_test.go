package thole_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
)

// pay moves one unit from a project to a user: one event in each space.
func pay(ctx context.Context, from *thole.Space, to string) (string, error) {
	var id string
	_, err := from.Update(ctx, func(tx *thole.Tx) error {
		tx.Emit("app/ledger", "payment.sent", 1)
		id = tx.Send(to, thole.Commit{
			Events: []thole.Event{{Stream: "app/ledger", Type: "payment.received", Data: json.RawMessage("1")}},
			Writes: []thole.Write{{Key: "app/last", Value: json.RawMessage("1")}, {Key: "app/gone"}},
		}, &thole.SendOptions{Delivered: &thole.Event{Stream: "app/ledger", Type: "payment.settled", Data: json.RawMessage("1")}})
		return nil
	})
	return id, err
}

// types returns the types of the events in a stream.
func types(t *testing.T, sp *thole.Space, stream string) string {
	t.Helper()
	var out []string
	for e, err := range sp.Events(t.Context(), thole.ReadQuery{Stream: stream}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Type)
	}
	return strings.Join(out, " ")
}

func intents(t *testing.T, s *thole.Store, space string) int {
	t.Helper()
	recs, err := s.Backend().List(t.Context(), space, thole.ListQuery{Prefix: "outbox/"})
	if err != nil {
		t.Fatal(err)
	}
	return len(recs)
}

func TestAMessageIsDeliveredBeforeUpdateReturns(t *testing.T) {
	s := open(t, &thole.Options{Sweep: -1})
	shop, user := s.Space("project:shop"), s.Space("user:1")
	if _, err := user.Update(t.Context(), func(tx *thole.Tx) error { tx.Put("app/gone", 1, nil); return nil }); err != nil {
		t.Fatal(err)
	}
	id, err := pay(t.Context(), shop.As("user:7").Because("sess_1"), "user:1")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := types(t, shop, "app/ledger"), "payment.sent payment.settled"; got != want {
		t.Errorf("sender: got %q, want %q", got, want)
	}
	page, err := user.Read(t.Context(), thole.ReadQuery{Stream: "app/ledger"})
	if err != nil || len(page.Events) != 1 || page.Events[0].Actor != "user:7" || page.Events[0].Cause != "sess_1" {
		t.Errorf("receiver: got %v, %v; want one event by user:7 because of sess_1", page.Events, err)
	}
	recs, err := user.GetAll(t.Context(), "app/last", "app/gone", "sent/"+id)
	if err != nil || !recs[0].Exists() || recs[1].Exists() || !recs[2].Exists() {
		t.Errorf("receiver's records: got %v, %v; want one put, one deleted, one receipt", recs, err)
	}
	if n := intents(t, s, "project:shop"); n != 0 {
		t.Errorf("%d intents are left", n)
	}
}

func TestAMessageIsDeliveredOnceWhereverTheSenderDies(t *testing.T) {
	for cut := 1; cut <= 3; cut++ {
		for _, w := range []when{before, after} {
			t.Run(fmt.Sprint(cut, w), func(t *testing.T) {
				backend := memstore.New()
				dying := &faults{Backend: backend, shared: true}
				s := openOn(t, dying, &thole.Options{Sweep: -1})
				dying.breakFrom(cut, w)
				_, err := pay(t.Context(), s.Space("project:shop"), "user:1")
				if sent := cut > 1; sent != (err == nil) {
					t.Fatalf("got %v", err)
				}

				s = openOn(t, backend, &thole.Options{Sweep: -1})
				for range 2 {
					if err := s.Sweep(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				sender, receiver := "payment.sent payment.settled", "payment.received"
				if cut == 1 && w == before {
					sender, receiver = "", ""
				}
				if got := types(t, s.Space("project:shop"), "app/ledger"); got != sender {
					t.Errorf("sender: got %q, want %q", got, sender)
				}
				if got := types(t, s.Space("user:1"), "app/ledger"); got != receiver {
					t.Errorf("receiver: got %q, want %q", got, receiver)
				}
				if n := intents(t, s, "project:shop"); n != 0 {
					t.Errorf("%d intents are left", n)
				}
			})
		}
	}
}

func TestAMessageIsDeliveredOnceBySeveralSweepers(t *testing.T) {
	backend := memstore.New()
	dying := &faults{Backend: backend, shared: true}
	s := openOn(t, dying, &thole.Options{Sweep: -1})
	dying.breakFrom(2, before)
	if _, err := pay(t.Context(), s.Space("project:shop"), "user:1"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		s := openOn(t, &faults{Backend: backend, shared: i > 0}, &thole.Options{Sweep: -1})
		for range 4 {
			wg.Go(func() {
				if err := s.Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if got, want := types(t, s.Space("project:shop"), "app/ledger"), "payment.sent payment.settled"; got != want {
		t.Errorf("sender: got %q, want %q", got, want)
	}
	if got, want := types(t, s.Space("user:1"), "app/ledger"), "payment.received"; got != want {
		t.Errorf("receiver: got %q, want %q", got, want)
	}
}

func TestARefusedMessageIsToldToItsSender(t *testing.T) {
	s := open(t, &thole.Options{Sweep: -1})
	sp := s.Space("project:shop")
	var id string
	for _, opts := range []*thole.SendOptions{nil, {Refused: &thole.Event{Stream: "app/x", Type: "payment.bounced"}}} {
		_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
			id = tx.Send("user:1", thole.Commit{
				Checks: []thole.Check{{Key: "app/account", At: thole.Position{Epoch: journal.NewEpoch(1), Seq: 1}}},
				Writes: []thole.Write{{Key: "app/x", Value: json.RawMessage("1")}},
			}, opts)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if opts == nil {
			if got, want := types(t, sp, "outbox/"+id), "outbox.refused"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
	if got, want := types(t, sp, "app/x"), "payment.bounced"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if rec, err := s.Space("user:1").Get(t.Context(), "app/x"); err != nil || rec.Exists() {
		t.Errorf("a refused message was applied: %v, %v", rec, err)
	}
	if n := intents(t, s, "project:shop"); n != 0 {
		t.Errorf("%d intents are left", n)
	}
}

func TestAMessageThatCannotBeIsNotSent(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	ok := thole.Commit{Events: []thole.Event{{Stream: "a", Type: "a.b"}}}
	for name, c := range map[string]struct {
		to   string
		c    thole.Commit
		opts *thole.SendOptions
		want error
	}{
		"space":   {"nowhere", ok, nil, thole.ErrInvalid},
		"event":   {"user:1", thole.Commit{Events: []thole.Event{{Type: "a.b"}}}, nil, thole.ErrInvalid},
		"outcome": {"user:1", ok, &thole.SendOptions{Delivered: &thole.Event{Stream: "a"}}, thole.ErrInvalid},
		"size":    {"user:1", thole.Commit{Events: make([]thole.Event, 300)}, nil, thole.ErrTooLarge},
	} {
		_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
			tx.Send(c.to, c.c, c.opts)
			return nil
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}
