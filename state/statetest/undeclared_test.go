package statetest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

// A process without the concepts kv, lock and thread sweeps first; one that has them
// sweeps after it. No event of the second is lost, and no value gets into the journal.
func TestAConceptEndsAsItShouldAlthoughAProcessSweepsThatDoesNotKnowIt(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx := t.Context()
		sp := e.Space("project:shop")
		ignorant := e.Second(&thole.Options{Now: e.Clock.Now, Sweep: -1}) // it has no concepts
		_, err := kv.In(sp).Set(ctx, "session", "key", json.RawMessage(`"the password"`), &kv.SetOptions{TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lock.In(sp).Acquire(ctx, "a", &lock.Options{Owner: "user:1", TTL: time.Second}); err != nil {
			t.Fatal(err)
		}
		chat, err := thread.In(sp).Create(ctx, &thread.CreateOptions{TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		e.Clock.Advance(time.Minute)
		for range 2 {
			if err := ignorant.Sweep(ctx); err != nil {
				t.Errorf("sweep by the process that does not know them: %v", err)
			}
		}
		_, err = ignorant.Space("project:shop").Update(ctx, func(tx *thole.Tx) error {
			tx.Put("kv/session/key", 1, nil)
			return nil
		})
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a write by the process that does not know it: got %v, want ErrUnsupported", err)
		}
		if err := e.Store.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		ended := make(map[string]int)
		for ev, err := range sp.Events(ctx, thole.ReadQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(ev.Data), "password") {
				t.Errorf("the journal discloses the value: %s %s", ev.Type, ev.Data)
			}
			if strings.HasSuffix(ev.Type, ".expired") {
				ended[ev.Stream+" "+ev.Type]++
			}
		}
		for _, want := range []string{"kv/session kv.expired", "lock/a lock.expired", thread.Key(chat.ID) + " thread.expired"} {
			if ended[want] != 1 {
				t.Errorf("%q was emitted %d times, want once; everything that ended: %v", want, ended[want], ended)
			}
		}
		recs, err := e.Store.Backend().List(ctx, "project:shop", thole.ListQuery{DueBy: e.Store.Now()})
		if err != nil || len(recs) != 0 {
			t.Errorf("%d expired records are left, %v", len(recs), err)
		}
	})
}

// One process gives expiries, by raw commits, to records that no program lets expire;
// another one finds them and sweeps.
func TestWhatNeverExpiresByItselfEndsWhenAWriterGaveItATime(t *testing.T) {
	keys := []string{
		"blob/x", "chunk/x", "upload/x", "erased/x", "idem/x/0", "sent/x", "snap/x", "sweeper/x/owner",
		"decision/x", "decision-act/x/beat", "decision-act/x/owner", "decision-key/x", "decision-open/x", "decision-standing/x",
		"document/x", "file/x", "kv/n/x", "lock/x/queue", "lockwaits/x", "ready/%/x", "run/x", "run/x/child/y", "slot/x",
		"thread/x/todos", "app/x",
	}
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		for _, notify := range []bool{false, true} {
			ctx := t.Context()
			name := "project:plain"
			if notify {
				name = "project:notify"
			}
			writer, sp := e.Second(nil), e.Space(name)
			c := thole.Commit{Space: name, Now: e.Clock.Now(), Actor: "user:1"}
			for _, key := range append(keys, "theirs/x") {
				c.Writes = append(c.Writes, thole.Write{Key: key, Value: []byte(`{}`), Expires: e.Clock.Now().Add(time.Second), Notify: notify})
			}
			if res, err := writer.Apply(ctx, []thole.Commit{c}); err != nil || res[0].Conflict != nil {
				t.Fatal(res, err)
			}
			e.Clock.Advance(time.Minute)
			for i, key := range keys {
				if i%2 == 1 || strings.HasPrefix(key, "run/") || strings.HasPrefix(key, "thread/") {
					continue // the sweep does that
				}
				_, err := sp.Update(ctx, func(tx *thole.Tx) error {
					tx.Delete(key)
					return nil
				})
				if err != nil {
					t.Errorf("notify %v: a write that touches %s: %v", notify, key, err)
				}
			}
			if notify {
				_, err := sp.Update(ctx, func(tx *thole.Tx) error {
					tx.Delete("theirs/x")
					return nil
				})
				if !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("a write that touches a record of an unknown concept: got %v, want ErrUnsupported", err)
				}
			}
			if err := e.Store.Sweep(ctx); err != nil {
				t.Errorf("sweep: %v", err)
			}
			recs, err := e.Store.Backend().List(ctx, name, thole.ListQuery{})
			if err != nil || len(recs) != 1 || recs[0].Key != "theirs/x" {
				for _, r := range recs {
					t.Errorf("notify %v: %s is left", notify, r.Key)
				}
				t.Errorf("%d records are left, %v; want theirs/x, which this program does not know", len(recs), err)
			}
			for ev, err := range sp.Events(ctx, thole.ReadQuery{}) {
				if err != nil || ev.Type != "app.expired" && ev.Type != "kv.expired" {
					t.Errorf("notify %v: there is an event of the end: %s %s %v", notify, ev.Stream, ev.Type, err)
				}
			}
		}
	})
}
