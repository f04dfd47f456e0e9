package kv_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/statetest"
)

func TestMain(m *testing.M) { statetest.Main(m) }

func TestExistsIsToldFromEmpty(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		s, ctx := kv.In(e.Space("user:1")), t.Context()
		for _, empty := range []any{nil, "", 0, false, []int{}, map[string]int{}} {
			set, err := s.Set(ctx, "prefs", "a", empty, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Get(ctx, "prefs", "a")
			if err != nil || !got.Exists || got.Version != set.Version || string(got.Data) != string(set.Data) {
				t.Errorf("after setting %v: got %+v, %v; want it to exist at %s", empty, got, err, set.Version)
			}
		}
		if existed, err := s.Delete(ctx, "prefs", "a", nil); !existed || err != nil {
			t.Errorf("delete: got %v, %v; want true", existed, err)
		}
		if existed, err := s.Delete(ctx, "prefs", "a", nil); existed || err != nil {
			t.Errorf("delete again: got %v, %v; want false", existed, err)
		}
		if got, err := s.Get(ctx, "prefs", "a"); err != nil || got.Exists || got.Data != nil || !got.Version.IsZero() {
			t.Errorf("after delete: got %+v, %v; want absent", got, err)
		}
		if other, _ := kv.In(e.Space("user:2")).Get(ctx, "prefs", "a"); other.Exists {
			t.Error("another space sees the key")
		}
	})
}

func TestAConditionThatDoesNotHoldSaysWhatIsThere(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		s, ctx := kv.In(e.Space("user:1")), t.Context()
		first, err := s.Set(ctx, "n", "k", 1, &kv.SetOptions{IfAbsent: true})
		if err != nil {
			t.Fatal(err)
		}
		second, err := s.Set(ctx, "n", "k", 2, &kv.SetOptions{IfMatch: first.Version})
		if err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"set if absent":   errOf(s.Set(ctx, "n", "k", 3, &kv.SetOptions{IfAbsent: true})),
			"set if match":    errOf(s.Set(ctx, "n", "k", 3, &kv.SetOptions{IfMatch: first.Version})),
			"delete if match": errOf(s.Delete(ctx, "n", "k", &kv.DeleteOptions{IfMatch: first.Version})),
		} {
			var conflict *thole.ConflictError
			if !errors.As(err, &conflict) || conflict.Actual != second.Version {
				t.Errorf("%s: got %v, want a conflict with %s", name, err, second.Version)
			}
		}
	})
}

func errOf[T any](_ T, err error) error { return err }

func TestExpiryIsOneEvent(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("user:1"), t.Context()
		s := kv.In(sp)
		// The first is swept, the second ends because it is touched, the third is set
		// again.
		var was thole.Position
		for _, key := range []string{"swept", "touched", "kept"} {
			got, err := s.Set(ctx, "sess/ion", key, "secret", &kv.SetOptions{TTL: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			was = got.Version
		}
		if _, err := s.Set(ctx, "sess/ion", "kept", "secret", &kv.SetOptions{IfMatch: was}); err != nil {
			t.Fatal(err)
		}
		e.Clock.Advance(time.Minute)
		if got, _ := s.Get(ctx, "sess/ion", "swept"); got.Exists {
			t.Error("an expired key is still seen")
		}
		if _, err := s.Set(ctx, "sess/ion", "touched", 2, &kv.SetOptions{IfAbsent: true}); err != nil {
			t.Errorf("set if absent over an expired key: %v", err)
		}
		for range 3 {
			if err := e.Sweep(ctx); err != nil {
				t.Fatal(err)
			}
		}
		count := map[string]int{}
		for ev, err := range sp.Events(ctx, thole.ReadQuery{Stream: "kv/sess%2Fion"}) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(ev.Data), "secret") {
				t.Errorf("%s discloses the value: %s", ev.Type, ev.Data)
			}
			var c kv.Change
			if err := ev.As(&c); err != nil || c.Namespace != "sess/ion" {
				t.Errorf("%s: got %+v, %v", ev.Type, c, err)
			}
			if ev.Type == kv.TypeExpired {
				count[c.Key]++
			}
		}
		if got, want := fmt.Sprint(count), "map[swept:1 touched:1]"; got != want {
			t.Errorf("expired: got %s, want %s", got, want)
		}
		if got, _ := s.Get(ctx, "sess/ion", "kept"); !got.Exists {
			t.Error("a key that was set anew without ttl expired")
		}
	})
}

func TestListsAreCompleteForAnyNames(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		s, ctx := kv.In(e.Space("user:1")), t.Context()
		keys := []string{"a", "a/b", "a b", "../..", "é", "a%2Fb", "💧", "ab", "b"}
		for _, k := range keys {
			if _, err := s.Set(ctx, "odd/one", k, k, nil); err != nil {
				t.Fatalf("%q: %v", k, err)
			}
		}
		if _, err := s.Set(ctx, "odd", "one", 1, nil); err != nil {
			t.Fatal(err)
		}
		for _, prefix := range []string{"", "a", "a/", "zz", "é"} {
			want := 0
			for _, k := range keys {
				if strings.HasPrefix(k, prefix) {
					want++
				}
			}
			for _, limit := range []int{0, 1, 3} {
				got, seen := kv.ListOptions{Prefix: prefix, Limit: limit}, map[string]bool{}
				for {
					page, err := s.List(ctx, "odd/one", &got)
					if err != nil {
						t.Fatal(err)
					}
					for _, en := range page.Items {
						var v string
						if err := en.As(&v); err != nil || v != en.Key || seen[v] || !strings.HasPrefix(v, prefix) {
							t.Errorf("prefix %q: got %q holding %q (%v)", prefix, en.Key, v, err)
						}
						seen[v] = true
					}
					if got.After = page.Next; page.Next == "" {
						break
					}
				}
				if len(seen) != want {
					t.Errorf("prefix %q by %d: got %d keys, want %d", prefix, limit, len(seen), want)
				}
			}
		}
	})
}

func TestBadInputIsNamed(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		s, ctx := kv.In(e.Space("user:1")), t.Context()
		for name, c := range map[string]struct{ got, want error }{
			"no namespace": {errOf(s.Get(ctx, "", "k")), thole.ErrInvalid},
			"no key":       {errOf(s.Set(ctx, "n", "", 1, nil)), thole.ErrInvalid},
			"long key":     {errOf(s.Set(ctx, "n", strings.Repeat("k", 300), 1, nil)), thole.ErrTooLarge},
			"large value":  {errOf(s.Set(ctx, "n", "k", strings.Repeat("v", 600_000), nil)), thole.ErrTooLarge},
			"no JSON":      {errOf(s.Set(ctx, "n", "k", func() {}, nil)), thole.ErrInvalid},
			"negative ttl": {errOf(s.Set(ctx, "n", "k", 1, &kv.SetOptions{TTL: -1})), thole.ErrInvalid},
		} {
			if !errors.Is(c.got, c.want) {
				t.Errorf("%s: got %v, want %v", name, c.got, c.want)
			}
		}
	})
}

func TestRepeatUnderIdempotencyKeySetsOnce(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		s := kv.In(e.Space("user:1"))
		var got [2]kv.Entry
		for i := range got {
			var err error
			ctx := thole.WithIdempotencyKey(t.Context(), "once", "f")
			if got[i], err = s.Set(ctx, "n", "k", 1, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got[1].Version != got[0].Version || string(got[1].Data) != "1" {
			t.Errorf("repeat: got %+v, want %+v", got[1], got[0])
		}
	})
}
