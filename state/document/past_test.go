package document_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/statetest"
)

// tree returns a random JSON value.
func tree(r *rand.Rand, depth int) any {
	switch n := r.IntN(9); {
	case n < 3 && depth > 0:
		m := map[string]any{}
		for range r.IntN(5) {
			m[[]string{"a", "b", "c/d", "e~f", "", "ü"}[r.IntN(6)]] = tree(r, depth-1)
		}
		return m
	case n < 5 && depth > 0:
		l := []any{}
		for range r.IntN(5) {
			l = append(l, tree(r, depth-1))
		}
		return l
	case n == 5:
		return nil
	case n == 6:
		return r.IntN(3) == 0
	case n == 7:
		return strings.Repeat("s", r.IntN(40))
	}
	return r.IntN(4)
}

// mutate changes a value at one random place.
func mutate(r *rand.Rand, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			if r.IntN(2) == 0 {
				v[name] = mutate(r, v[name])
				return v
			}
		}
		v[fmt.Sprint(r.IntN(5))] = tree(r, 2)
		return v
	case []any:
		if len(v) > 0 && r.IntN(3) > 0 {
			i := r.IntN(len(v))
			if r.IntN(3) == 0 {
				return append(v[:i:i], v[i+1:]...)
			}
			v[i] = mutate(r, v[i])
			return v
		}
		i := r.IntN(len(v) + 1)
		return append(v[:i:i], append([]any{tree(r, 2)}, v[i:]...)...)
	}
	return tree(r, 3)
}

func compact(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestADocumentAtAPositionIsWhatWasRecorded(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		r := rand.New(rand.NewPCG(seed, 0))
		sp, ctx := e.Space("project:shop"), t.Context()
		docs := document.In(sp)
		type version struct {
			at   thole.Position
			want string
		}
		past := []version{}
		var value any = map[string]any{"padding": strings.Repeat("p", 2000)}
		for i := range 150 {
			want := ""
			if i > 0 && r.IntN(60) == 0 {
				if _, err := docs.Delete(ctx, "d", nil); err != nil {
					t.Fatal(err)
				}
			} else {
				value = mutate(r, value)
				want = compact(t, value)
				if _, err := docs.Put(ctx, "d", value, nil); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := docs.Put(ctx, "other", i, nil); err != nil {
				t.Fatal(err)
			}
			head, err := sp.Head(ctx)
			if err != nil {
				t.Fatal(err)
			}
			past = append(past, version{head.Last, want})
			if err := json.Unmarshal([]byte(compact(t, value)), &value); err != nil {
				t.Fatal(err)
			}
		}
		e.Reopen()
		docs = document.In(e.Space("project:shop"))
		for i, p := range past {
			got, err := docs.Get(ctx, "d", &document.GetOptions{At: p.at})
			if err != nil || string(got.Value) != p.want || got.Exists != (p.want != "") {
				t.Fatalf("version %d at %s: got %s (%v), want %s", i, p.at, got.Value, err, p.want)
			}
		}
		// The patch between two versions leads from one to the other.
		for range 20 {
			a, b := past[r.IntN(len(past))], past[r.IntN(len(past))]
			if a.want == "" || b.want == "" {
				continue
			}
			ops, err := docs.Diff(ctx, "d", a.at, b.at)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := docs.Put(ctx, "copy", json.RawMessage(a.want), nil); err != nil {
				t.Fatal(err)
			}
			if ops == nil {
				ops = []document.Operation{}
			}
			got, err := docs.JSONPatch(ctx, "copy", json.RawMessage(compact(t, ops)), nil)
			check(t, "diff", got, err, b.want)
		}
	})
}

func TestReplayCostStaysFlat(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		docs := document.In(sp)
		for range 1200 {
			if _, err := docs.Apply(ctx, "d", []document.Op{{Op: "increment", Path: "/n"}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		since, whole := 0, 0
		for ev, err := range sp.Events(ctx, thole.ReadQuery{Stream: "document/d"}) {
			var c document.Change
			if err != nil || ev.As(&c) != nil {
				t.Fatal(err)
			}
			if since++; c.Snapshot != "" {
				since = 0
				whole++
			}
			if since > 500 {
				t.Fatalf("%d changes in a row without a whole value", since)
			}
		}
		if whole == 0 || whole > 30 {
			t.Errorf("1,200 changes were kept whole %d times, want a few", whole)
		}
	})
}

func TestAPastThatIsNotKeptIsTrimmed(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		docs := document.In(sp)
		var at []thole.Position
		for range 5 {
			got, err := docs.Apply(ctx, "d", []document.Op{{Op: "increment", Path: "/n"}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			at = append(at, got.Version)
		}
		if err := sp.Purge(ctx, thole.Purge{Before: at[2]}); err != nil {
			t.Fatal(err)
		}
		for _, p := range []thole.Position{at[0], at[2], {Epoch: at[0].Epoch, Seq: 99}} {
			if err := errOf(docs.Get(ctx, "d", &document.GetOptions{At: p})); !errors.Is(err, thole.ErrTrimmed) {
				t.Errorf("at %s: got %v, want ErrTrimmed", p, err)
			}
		}
		got, err := docs.Get(ctx, "d", &document.GetOptions{At: at[4]})
		check(t, "at the newest", got, err, `{"n":5}`)
	})
}
