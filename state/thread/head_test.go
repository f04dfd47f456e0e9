package thread_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

func TestPatchMergesMetadata(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ts := thread.In(e.Space("project:shop"))
		raw := func(s string) json.RawMessage { return json.RawMessage(s) }
		id := create(t, ts, &thread.CreateOptions{Metadata: map[string]json.RawMessage{"a": raw(`1`), "b": raw(`{"x":1,"y":2}`), "c": raw(`"old"`)}})
		before, _ := ts.Get(t.Context(), id)
		title := "New"
		patch := thread.Patch{Title: &title, Metadata: map[string]json.RawMessage{"a": raw(`null`), "b": raw(`{"x":null,"z":{}}`)}}
		th, err := ts.Patch(t.Context(), id, patch, &thread.PatchOptions{IfMatch: before.Version})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := json.Marshal(th.Metadata)
		if want := `{"b":{"y":2,"z":{}},"c":"old"}`; string(got) != want || th.Title != "New" {
			t.Errorf("got %s %q, want %s", got, th.Title, want)
		}
		if _, err := ts.Patch(t.Context(), id, patch, &thread.PatchOptions{IfMatch: before.Version}); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("an old version: got %v, want ErrConflict", err)
		}
	})
}

func TestAnOldThreadWithATTLOverTheLimitGoesOn(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		ts := thread.In(sp)
		for _, ttl := range []int64{int64(2 * thole.MaxTTL / time.Second), 10_000_000_000, 1 << 62} { // the last two overflow a time.Duration
			id := create(t, ts, nil)
			do(t, sp, func(tx *thole.Tx) error {
				tx.Put(thread.Key(id), map[string]any{"ttl": ttl, "owner": "user:1"}, nil)
				return nil
			})
			title := "New"
			th, err := ts.Patch(t.Context(), id, thread.Patch{Title: &title}, nil)
			if err != nil {
				t.Errorf("ttl %d: patch: %v", ttl, err)
				continue
			}
			if _, err := ts.Append(t.Context(), id, thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock("hi")}}, nil); err != nil {
				t.Errorf("ttl %d: append: %v", ttl, err)
			}
			rec, err := sp.Get(t.Context(), thread.Key(id))
			if want := e.Clock.Now().Add(thole.MaxTTL); err != nil || rec.Expires.Before(want.Add(-time.Minute)) || rec.Expires.After(want) {
				t.Errorf("ttl %d: it expires at %v, %v; want %v", ttl, rec.Expires, err, want)
			}
			if _, err := ts.Create(t.Context(), &thread.CreateOptions{Parent: id, TTL: time.Duration(th.TTL) * time.Second}); err != nil {
				t.Errorf("ttl %d: a thread below it: %v", ttl, err)
			}
		}
	})
}

func TestSubAgentsThreadsNestSoDeepAndNoDeeper(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ts := thread.In(e.Space("project:shop"))
		root, err := ts.Create(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		last := root
		for depth := 1; ; depth++ {
			below, err := ts.Create(t.Context(), &thread.CreateOptions{Parent: last.ID})
			if depth > thread.MaxDepth {
				if !errors.Is(err, thole.ErrTooLarge) {
					t.Errorf("thread %d deep: got %v, want ErrTooLarge", depth, err)
				}
				break
			}
			if err != nil || below.Depth != depth {
				t.Fatalf("thread %d deep: got %+v, %v", depth, below, err)
			}
			last = below
		}
		_, err = ts.Create(t.Context(), &thread.CreateOptions{Parent: root.ID, RunScope: thread.PerUser})
		if !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("a sub-agent's thread in the line of its owner: got %v, want ErrInvalid", err)
		}
		if err := ts.Destroy(t.Context(), root.ID, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := ts.Get(t.Context(), last.ID); !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("the deepest after the first was destroyed: got %v, want ErrNotFound", err)
		}
	})
}

func TestASubAgentsThreadBeginsAsPrivateAndIsOfTheSameOwner(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		parent := create(t, thread.In(sp.As("user:ann")), nil)
		ts := thread.In(sp.As("agent:helper"))
		below, err := ts.Create(t.Context(), &thread.CreateOptions{Parent: parent})
		if err != nil || below.Visibility != thread.Private || below.Owner != "user:ann" {
			t.Errorf("got %+v, %v; want a private thread of user:ann", below, err)
		}
		for _, o := range []thread.CreateOptions{{Visibility: thread.ForSpace}, {Owner: "user:eve"}} {
			o.Parent = parent
			if below, err := ts.Create(t.Context(), &o); !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("%+v: got %+v, %v; want ErrInvalid", o, below, err)
			}
		}
	})
}

func TestListIsLightAndSkipsWhatLiesBelow(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		ts := thread.In(sp)
		var want []string
		for i := range 7 {
			id := create(t, ts, &thread.CreateOptions{Assistant: []string{"coder", "architect"}[i%2]})
			want = append(want, id)
			do(t, sp, func(tx *thole.Tx) error {
				for j := range i * 3 {
					tx.Put(thread.Key(id)+"/x/"+string(rune('a'+j)), j, nil)
				}
				return nil
			})
		}
		create(t, ts, &thread.CreateOptions{Parent: want[0]})
		do(t, sp, func(tx *thole.Tx) error { // an admin may commit raw records
			tx.Put("thread/a", true, nil)
			tx.Put("thread/x", "no thread", nil)
			return nil
		})
		for _, limit := range []int{1, 2, 3, 100} {
			var got []string
			for q := (thread.ListOptions{Limit: limit}); ; {
				p, err := ts.List(t.Context(), &q)
				if err != nil {
					t.Fatal(err)
				}
				for _, en := range p.Items {
					got = append(got, en.ID)
				}
				if q.Cursor = p.Next; q.Cursor == "" {
					break
				}
			}
			if len(got) != len(want) || got[0] != want[0] || got[6] != want[6] {
				t.Errorf("pages of %d: got %v, want %v", limit, got, want)
			}
		}
		p, err := ts.List(t.Context(), &thread.ListOptions{Assistant: "architect"})
		if err != nil || len(p.Items) != 3 {
			t.Errorf("of one assistant: got %d (%v), want 3", len(p.Items), err)
		}
	})
}

func TestDestroyTellsTheFinalStateAndLeavesNoRecord(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		ts := thread.In(sp)
		id := create(t, ts, &thread.CreateOptions{Title: "gone"})
		child := create(t, ts, &thread.CreateOptions{Parent: id})
		do(t, sp, func(tx *thole.Tx) error { tx.Put(thread.Key(id)+"/state", map[string]int{"n": 1}, nil); return nil })
		if err := ts.Destroy(t.Context(), id, nil); err != nil {
			t.Fatal(err)
		}
		for _, gone := range []string{id, child} {
			if _, err := ts.Get(t.Context(), gone); !errors.Is(err, thole.ErrNotFound) {
				t.Errorf("get: got %v, want ErrNotFound", err)
			}
		}
		if recs, err := sp.List(t.Context(), thole.ListQuery{Prefix: "thread/"}); err != nil || len(recs) != 0 {
			t.Errorf("left behind: %v (%v)", recs, err)
		}
		final(t, sp, id, "thread.destroyed")
	})
}

// final checks that the thread's last event contains its final state.
func final(t *testing.T, sp *thole.Space, id, typ string) {
	t.Helper()
	page, err := sp.Read(t.Context(), thole.ReadQuery{Stream: thread.Key(id), Backward: true, Limit: 1})
	if err != nil || len(page.Events) != 1 || page.Events[0].Type != typ {
		t.Fatalf("last event: got %+v (%v), want %s", page.Events, err, typ)
	}
	var x thole.Expired
	if err := page.Events[0].As(&x); err != nil || x.Key != thread.Key(id) || string(x.Below["state"]) != `{"n":1}` {
		t.Errorf("final state: got %+v (%v)", x, err)
	}
	var head thread.Thread
	if err := json.Unmarshal(x.Value, &head); err != nil || head.Title != "gone" {
		t.Errorf("final head: got %+v (%v)", head, err)
	}
}

func TestAThreadExpiresAfterItsLastAppend(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		ts := thread.In(sp)
		id := create(t, ts, &thread.CreateOptions{Title: "gone", TTL: time.Hour})
		do(t, sp, func(tx *thole.Tx) error { tx.Put(thread.Key(id)+"/state", map[string]int{"n": 1}, nil); return nil })
		e.Clock.Advance(50 * time.Minute)
		say(t, ts, id, thread.User, "still here")
		e.Clock.Advance(50 * time.Minute)
		run := thole.NewID("run")
		do(t, sp, func(tx *thole.Tx) error { _, err := thread.BeginTurn(tx, id, run, nil); return err })
		e.Clock.Advance(3 * time.Hour) // a run at work keeps it
		if err := e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		do(t, sp, func(tx *thole.Tx) error { return thread.FinishTurn(tx, id, run, thread.Done, nil) })
		e.Clock.Advance(61 * time.Minute)
		if _, err := ts.Append(t.Context(), id, thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock("x")}}, nil); !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("append to an expired thread: got %v, want ErrNotFound", err)
		}
		if err := e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		final(t, sp, id, "thread.expired")
	})
}

func TestBadInputIsRefused(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ts := thread.In(e.Space("project:shop"))
		id := create(t, ts, nil)
		for name, m := range map[string]thread.Message{
			"role":    {Role: "robot", Blocks: []thread.Block{thread.TextBlock("x")}},
			"empty":   {Role: thread.User},
			"type":    {Role: thread.User, Blocks: []thread.Block{{Type: "video"}}},
			"utf-8":   {Role: thread.User, Blocks: []thread.Block{thread.TextBlock("\xff")}},
			"no tool": {Role: thread.Assistant, Blocks: []thread.Block{{Type: thread.ToolUse}}},
		} {
			if _, err := ts.Append(t.Context(), id, m, nil); !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("%s: got %v, want ErrInvalid", name, err)
			}
		}
		if _, err := ts.Get(t.Context(), "../x"); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("bad id: got %v, want ErrInvalid", err)
		}
		if _, err := ts.Append(t.Context(), thole.NewID("thrd"), thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock("x")}}, nil); !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("unknown thread: got %v, want ErrNotFound", err)
		}
		for _, c := range []string{"x", "0001aaaaaaaa-0000000000000001.-1", ".3"} {
			if _, err := ts.Messages(t.Context(), id, &thread.Query{Cursor: c}); !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("cursor %q: got %v, want ErrInvalid", c, err)
			}
		}
		if _, err := ts.Create(t.Context(), &thread.CreateOptions{TTL: -1}); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("negative ttl: got %v, want ErrInvalid", err)
		}
	})
}

func TestWhatIsStoredIsLittleMoreThanWhatWasSaid(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		ts := thread.In(sp)
		id := create(t, ts, nil)
		const text = "some three hundred bytes, or fewer"
		for range 20 {
			say(t, ts, id, thread.User, text)
		}
		bytes := 0
		for ev, err := range sp.Events(t.Context(), thole.ReadQuery{Types: []string{"message.*"}}) {
			if err != nil {
				t.Fatal(err)
			}
			bytes += len(ev.Data)
		}
		if over := bytes/20 - len(text); over > 160 {
			t.Errorf("a message costs %d bytes beyond its content, want at most 160", over)
		}
		rec, err := sp.Get(t.Context(), thread.Key(id))
		if err != nil || len(rec.Value) > 250 {
			t.Errorf("head: got %d bytes (%v), want at most 250: %s", len(rec.Value), err, rec.Value)
		}
	})
}

func TestAChangeAnswersWhatAReadThenGives(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ts := thread.In(e.Space("project:shop"))
		same := func(what string, got, want any) {
			t.Helper()
			g, _ := json.Marshal(got)
			w, _ := json.Marshal(want)
			if string(g) != string(w) {
				t.Errorf("%s: answered %s, but a read gives %s", what, g, w)
			}
		}
		made, err := ts.Create(t.Context(), &thread.CreateOptions{Title: "old", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		read, _ := ts.Get(t.Context(), made.ID)
		same("create", made, read)
		title := "new"
		patched, err := ts.Patch(t.Context(), made.ID, thread.Patch{Title: &title}, nil)
		if err != nil {
			t.Fatal(err)
		}
		read, _ = ts.Get(t.Context(), made.ID)
		same("patch", patched, read)
		said, err := ts.Append(t.Context(), made.ID, thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock("hi")}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		page, err := ts.Messages(t.Context(), made.ID, nil)
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("messages: got %+v, %v", page, err)
		}
		same("append", said.Message, page.Items[0])
	})
}
