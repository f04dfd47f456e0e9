package thole_test

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

func keyed(ctx context.Context) context.Context {
	return thole.Call(thole.WithIdempotencyKey(ctx, "k", "f"), "app.call")
}

// say commits an event and returns text.
func say(ctx context.Context, sp *thole.Space, text string) (string, thole.Receipt, error) {
	return thole.Update(ctx, sp, func(tx *thole.Tx) (string, error) {
		tx.Emit("app/x", "x.y", 1)
		return text, nil
	})
}

func TestAnAnswerOfAnySizeIsRepeated(t *testing.T) {
	for _, size := range []int{0, 1, 16 << 10, 17 << 10, 512 << 10, 1 << 20} {
		sp := open(t, nil).Space("user:1")
		want := strings.Repeat("<é\x01>", size/5)
		first, r, err := say(keyed(t.Context()), sp, want)
		if err != nil || first != want || r.Repeated {
			t.Fatalf("%d bytes: got %d bytes, %+v, %v", size, len(first), r, err)
		}
		if _, err := sp.Commit(t.Context(), event(1)); err != nil {
			t.Fatal(err)
		}
		again, rr, err := say(keyed(t.Context()), sp, "another")
		if err != nil || again != want || !rr.Repeated || rr.First != r.First || rr.Last != r.Last {
			t.Errorf("%d bytes again: got %d bytes, %+v, %v; want %+v", size, len(again), rr, err, r)
		}
		if got := types(t, sp, "app/x"); got != "x.y x.y" {
			t.Errorf("%d bytes: got %q", size, got)
		}
	}
}

func TestAnAnswerSurvivesACrashRightAfterItsCommit(t *testing.T) {
	backend := memstore.New()
	dying := &faults{Backend: backend, shared: true}
	s := openOn(t, dying, nil)
	dying.breakFrom(1, after)
	if _, _, err := say(keyed(t.Context()), s.Space("user:1"), "first"); !errors.Is(err, errFault) {
		t.Fatalf("got %v, want the fault", err)
	}
	sp := openOn(t, backend, nil).Space("user:1")
	if again, r, err := say(keyed(t.Context()), sp, "second"); err != nil || again != "first" || !r.Repeated {
		t.Errorf("got %q, %+v, %v; want the first answer", again, r, err)
	}
}

func TestConcurrentCallsGetOneAnswer(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	var mu sync.Mutex
	got := map[string]int{}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			a, _, err := say(keyed(t.Context()), sp, thole.NewID("ans"))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			got[a]++
		})
	}
	wg.Wait()
	if len(got) != 1 || types(t, sp, "app/x") != "x.y" {
		t.Errorf("got answers %v, events %q; want one", got, types(t, sp, "app/x"))
	}
}

// A call under a key found that there was nothing to do; its repeat does nothing
// either, whatever changed since.
func TestACallThatChangesNothingIsRepeatedToo(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	remove := func() (bool, error) {
		existed, _, err := thole.Update(keyed(t.Context()), sp, func(tx *thole.Tx) (bool, error) {
			rec, err := tx.Get("app/k")
			if rec.Exists() {
				tx.Delete("app/k")
			}
			return rec.Exists(), err
		})
		return existed, err
	}
	if existed, err := remove(); err != nil || existed {
		t.Fatalf("got %v, %v", existed, err)
	}
	if head, err := sp.Head(t.Context()); err != nil || !head.Last.IsZero() {
		t.Errorf("a call that changed nothing made a space: %v, %v", head, err)
	}
	put := func() {
		if _, err := sp.Update(t.Context(), func(tx *thole.Tx) error { tx.Put("app/k", 1, nil); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sp.Commit(t.Context(), event(1)); err != nil {
		t.Fatal(err)
	}
	remove()
	put()
	if existed, err := remove(); err != nil || existed {
		t.Errorf("repeat: got %v, %v; want the first answer", existed, err)
	}
	if rec, err := sp.Get(t.Context(), "app/k"); err != nil || !rec.Exists() {
		t.Errorf("the repeat deleted it: %v, %v", rec, err)
	}
}

func TestTheSecretOfALeaseIsRepeatedToItsOwnerAndStoredNowhere(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	acquire := func(secret string) thole.Fence {
		t.Helper()
		f, r, err := thole.Update(thole.WithKeySecret(keyed(t.Context()), secret), sp, func(tx *thole.Tx) (thole.Fence, error) {
			return tx.Acquire("job", "me", time.Minute)
		})
		if err != nil {
			t.Fatal(err)
		}
		return r.Fence(f)
	}
	first := acquire("bearer")
	if got := acquire("bearer").Proof(); got != first.Proof() || sp.Prove(t.Context(), first) != nil {
		t.Errorf("repeat: got %s, want %s", got, first.Proof())
	}
	for _, other := range []string{"", "another"} {
		if f := acquire(other); f.Proof() != "" || !f.Is(first) {
			t.Errorf("with secret %q: got %v and proof %q, want the fence without one", other, f, f.Proof())
		}
	}
	_, text, _ := strings.Cut(first.Proof(), ".")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for rec, err := range sp.Records(t.Context(), "") {
		for _, shown := range []string{text, string(raw), base64.StdEncoding.EncodeToString(raw)} {
			if err != nil || strings.Contains(string(rec.Value), shown) {
				t.Errorf("%s shows the secret: %s (%v)", rec.Key, rec.Value, err)
			}
		}
	}
	unsealed, err := sp.List(t.Context(), thole.ListQuery{Prefix: "idem/"})
	if err != nil || len(unsealed) != 1 || !strings.Contains(string(unsealed[0].Value), `"fences"`) {
		t.Errorf("got %v, %v; want one receipt with a sealed secret", unsealed, err)
	}
}

// The receipts keep no copy of what a purge removed, and a repeat is still recognized.
func TestAPurgeDropsTheAnswersAndNothingIsDoneTwice(t *testing.T) {
	for _, size := range []int{10, 600 << 10} {
		sp := open(t, nil).Space("user:1")
		_, r, err := say(keyed(t.Context()), sp, strings.Repeat("secret ", size/7))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sp.Commit(t.Context(), event(1)); err != nil {
			t.Fatal(err)
		}
		if err := sp.Purge(t.Context(), thole.Purge{Events: []thole.Position{r.Last}}); err != nil {
			t.Fatal(err)
		}
		for rec, err := range sp.Records(t.Context(), "idem/") {
			if err != nil || strings.Contains(string(rec.Value), "secret") || strings.Count(rec.Key, "/") > 2 {
				t.Errorf("left: %s %.80s, %v", rec.Key, rec.Value, err)
			}
		}
		if got, _, err := say(keyed(t.Context()), sp, "x"); !errors.Is(err, thole.ErrExists) {
			t.Errorf("repeat: got %q, %v; want ErrExists", got, err)
		}
		ctx := thole.Call(thole.WithIdempotencyKey(t.Context(), "k", "f"), "app.call")
		if first, repeated, err := sp.Earlier(ctx); err != nil || !repeated || first.Last != r.Last || first.First != r.First {
			t.Errorf("got %+v, %v, %v; want %+v", first, repeated, err, r)
		}
		if n := len(strings.Fields(types(t, sp, "app/x"))); n != 2 {
			t.Errorf("%d events, want 2", n)
		}
	}
}

// Do reads the receipt before it calls its function, whose findings do not matter on a
// repeat.
func TestDoLooksAroundOnce(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	var looked []string
	do := func(found string, err error) (string, error) {
		got, _, err := thole.Do(keyed(t.Context()), sp, func(ctx context.Context) (string, thole.Receipt, error) {
			looked = append(looked, found)
			if err != nil {
				return "", thole.Receipt{}, err
			}
			return say(ctx, sp, found)
		})
		return got, err
	}
	if _, err := do("refused", thole.ErrNotFound); !errors.Is(err, thole.ErrNotFound) {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := do("a", nil); err != nil || got != "a" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if got, err := do("b", thole.ErrNotFound); err != nil || got != "a" {
		t.Errorf("got %q, %v; want the first answer", got, err)
	}
	if !slices.Equal(looked, []string{"refused", "a"}) {
		t.Errorf("the function ran: %v", looked)
	}
}
