package thole_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// interrupted is a Backend that calls a function before the n-th Commit.
type interrupted struct {
	*faults
	n, count int
	others   func()
}

func (i *interrupted) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	if i.count++; i.count == i.n {
		i.others()
	}
	return i.faults.Commit(ctx, batch)
}

// claim sends a payment that is refused as long as the user has an account.
func claim(ctx context.Context, from *thole.Space) error {
	_, err := from.Update(ctx, func(tx *thole.Tx) error {
		tx.Send("user:1", thole.Commit{
			Checks: []thole.Check{{Key: "app/account"}},
			Events: []thole.Event{{Stream: "app/ledger", Type: "payment.received", Data: json.RawMessage("1")}},
		}, &thole.SendOptions{
			Delivered: &thole.Event{Stream: "app/ledger", Type: "payment.settled"},
			Refused:   &thole.Event{Stream: "app/ledger", Type: "payment.bounced"},
		})
		return nil
	})
	return err
}

// The sender is told what happened in the second space, whatever two Stores on one
// backend do between each other's commits, wherever one dies, and however the message's
// condition changes in between.
func TestTheSenderIsToldWhatTheSecondSpaceDecided(t *testing.T) {
	heard := make(map[string]int)
	for _, account := range []bool{false, true} {
		for n := 1; n <= 4; n++ {
			for others := range 5 {
				for _, dies := range []string{"never", "before", "after"} {
					name := fmt.Sprintf("account %t, before commit %d others %d, dies %s", account, n, others, dies)
					backend := memstore.New()
					second := openOn(t, &faults{Backend: backend, shared: true}, &thole.Options{Sweep: -1})
					flip := func() {
						if _, err := second.Space("user:1").Update(t.Context(), func(tx *thole.Tx) error {
							if rec, err := tx.Get("app/account"); err != nil || rec.Exists() {
								tx.Delete("app/account")
								return err
							}
							tx.Put("app/account", 1, nil)
							return nil
						}); err != nil {
							t.Error(err)
						}
					}
					sweep := func() {
						if err := second.Sweep(t.Context()); err != nil {
							t.Errorf("%s: sweep: %v", name, err)
						}
					}
					if account {
						flip()
					}
					f := &faults{Backend: backend, shared: true}
					first := openOn(t, &interrupted{faults: f, n: n, others: func() {
						switch others {
						case 1:
							sweep()
						case 2:
							flip()
						case 3:
							flip()
							sweep()
						case 4:
							sweep()
							flip()
						}
					}}, &thole.Options{Sweep: -1})
					switch dies {
					case "before":
						f.breakFrom(n, before)
					case "after":
						f.breakFrom(n, after)
					}
					sp := second.Space("project:shop")
					if err := claim(t.Context(), first.Space("project:shop")); err != nil && n > 1 {
						t.Errorf("%s: send: %v", name, err)
					}
					for range 2 {
						sweep()
						flip() // nothing is decided again
					}
					outcome := types(t, sp, "app/ledger")
					received := types(t, second.Space("user:1"), "app/ledger")
					want := map[string]string{"payment.settled": "payment.received", "payment.bounced": ""}
					got, known := want[outcome]
					if outcome == "" && n == 1 && dies == "before" {
						got, known = "", true
					}
					if !known || got != received {
						t.Errorf("%s: the sender was told %q, the receiver has %q", name, outcome, received)
					}
					if n := intents(t, second, "project:shop"); n != 0 {
						t.Errorf("%s: %d intents are left", name, n)
					}
					heard[outcome]++
				}
			}
		}
	}
	if heard["payment.settled"] < 20 || heard["payment.bounced"] < 20 {
		t.Errorf("heard %v: the schedules do not lead to both outcomes", heard)
	}
}

// forged returns an intent that only the kernel may write.
func forged(t *testing.T, to string, c string) *thole.Store {
	t.Helper()
	b := memstore.New()
	s := openOn(t, b, &thole.Options{Sweep: -1})
	message := `{"to":` + to + `,"actor":"system",` + c + `}`
	if _, err := s.Apply(t.Context(), []thole.Commit{{Space: "project:c", Now: s.Now(), Actor: "user:eve", Writes: []thole.Write{
		{Key: "outbox/out_1", Value: json.RawMessage(message), Expires: s.Now()},
	}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAnIntentReachesNothingOfTheKernel(t *testing.T) {
	write := func(key string) string { return `"writes":[{"key":"` + key + `","value":{"id":"tok_1"}}]` }
	for name, c := range map[string]string{
		"token":            write("token/tok_1"),
		"intent":           write("outbox/out_2"),
		"verdict":          write("sent/out_2"),
		"receipt":          write("idem/x/0"),
		"snapshot":         write("snap/x"),
		"blob":             write("blob/x"),
		"sweeper":          write("sweeper/owner"),
		"lease":            write("run/run_1/owner"),
		"beat":             write("lock/a/intent/b/beat"),
		"event of tokens":  `"events":[{"stream":"token","type":"token.created"}]`,
		"check of a token": `"checks":[{"key":"token/tok_1","at":""}],"events":[{"stream":"a","type":"a.b"}]`,
		"actor":            `"actor":"` + strings.Repeat("x", 300) + `"`,
		"not a message":    `"writes":7`,
	} {
		s := forged(t, `"global"`, c)
		if err := s.Sweep(t.Context()); err != nil {
			t.Errorf("%s: sweep: %v", name, err)
		}
		if got := types(t, s.Space("project:c"), "outbox/out_1"); got != "outbox.refused" {
			t.Errorf("%s: the sender's space has %q, want outbox.refused", name, got)
		}
		recs, err := s.Backend().List(t.Context(), "global", thole.ListQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recs {
			if r.Key != "sent/out_1" {
				t.Errorf("%s: the record %s was delivered", name, r.Key)
			}
		}
		if got := types(t, s.Space("global"), "token"); got != "" {
			t.Errorf("%s: the stream token has %q", name, got)
		}
		if n := intents(t, s, "project:c"); n != 0 {
			t.Errorf("%s: %d intents are left", name, n)
		}
	}
}

func TestWhatBelongsToTheKernelCannotBeSent(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	ok := thole.Commit{Events: []thole.Event{{Stream: "a", Type: "a.b"}}}
	for name, send := range map[string]func(*thole.Tx){
		"token": func(tx *thole.Tx) { tx.Send("global", thole.Commit{Writes: []thole.Write{{Key: "token/tok_1"}}}, nil) },
		"lease": func(tx *thole.Tx) {
			tx.Send("user:1", thole.Commit{Writes: []thole.Write{{Key: "run/run_1/owner"}}}, nil)
		},
		"outcome": func(tx *thole.Tx) {
			tx.Send("user:1", ok, &thole.SendOptions{Delivered: &thole.Event{Stream: "token", Type: "a.b"}})
		},
	} {
		if _, err := sp.Update(t.Context(), func(tx *thole.Tx) error { send(tx); return nil }); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
}

// Intents that commit 80d442c delivered have null as verdict.
func TestAMessageThatAnOlderVersionDeliveredWasDelivered(t *testing.T) {
	s := forged(t, `"user:1"`, `"events":[{"stream":"app/x","type":"a.b"}],"delivered":{"stream":"app/x","type":"payment.settled"}`)
	if _, err := s.Apply(t.Context(), []thole.Commit{{Space: "user:1", Now: time.Now(), Writes: []thole.Write{
		{Key: "sent/out_1", Value: json.RawMessage("null")},
	}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := types(t, s.Space("project:c"), "app/x"); got != "payment.settled" {
		t.Errorf("the sender was told %q, want payment.settled", got)
	}
	if got := types(t, s.Space("user:1"), "app/x"); got != "" {
		t.Errorf("it was delivered again: %q", got)
	}
}

// An earlier version stored when a write expires as expires.
func TestAMessageOfAnEarlierVersionKeepsWhenItsWritesExpire(t *testing.T) {
	for _, name := range []string{"expires", "expires_at"} {
		s := forged(t, `"user:1"`, `"writes":[{"key":"app/k","value":1,"`+name+`":"2100-01-01T00:00:00Z"}]`)
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		rec, err := s.Space("user:1").Get(t.Context(), "app/k")
		if want := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC); err != nil || !rec.Expires.Equal(want) {
			t.Errorf("%s: the value expires at %v (%v), want %v", name, rec.Expires, err, want)
		}
	}
}

// The outcome that an intent names is also checked when it is delivered.
func TestAnInvalidOutcomeIsNotDelivered(t *testing.T) {
	for name, outcome := range map[string]string{
		"of the kernel": `{"stream":"token","type":"token.created"}`,
		"no event":      `{"stream":"app/x","type":""}`,
	} {
		for _, delivered := range []bool{true, false} {
			c, verdict, told := `"delivered":`+outcome, "null", ""
			if !delivered {
				c, verdict, told = `"refused":`+outcome, `{"refused":"no"}`, "outbox.refused"
			}
			s := forged(t, `"user:1"`, c+`,"events":[{"stream":"app/x","type":"a.b"}]`)
			if _, err := s.Apply(t.Context(), []thole.Commit{{Space: "user:1", Now: time.Now(), Writes: []thole.Write{
				{Key: "sent/out_1", Value: json.RawMessage(verdict)},
			}}}); err != nil {
				t.Fatal(err)
			}
			if err := s.Sweep(t.Context()); err != nil {
				t.Errorf("%s: sweep: %v", c, err)
			}
			sp := s.Space("project:c")
			if got := types(t, sp, "outbox/out_1"); got != told {
				t.Errorf("%s, %s: the sender was told %q, want %q", name, c, got, told)
			}
			if got := types(t, sp, "token") + types(t, sp, "app/x"); got != "" {
				t.Errorf("%s, %s: the outcome was told: %q", name, c, got)
			}
			if n := intents(t, s, "project:c"); n != 0 {
				t.Errorf("%s, %s: %d intents are left", name, c, n)
			}
		}
	}
}
