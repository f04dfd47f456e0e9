package statetest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

// A tenant copies every record of another's space into its own, expired: leases,
// deadlines, threads, entries. When the sweeper ends them, only its own space changes.
func TestWhatExpiresInOneSpaceChangesNoOther(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx := t.Context()
		victim, eve := e.Space("project:victim"), e.Space("project:eve")
		chat, err := thread.In(victim).Create(ctx, &thread.CreateOptions{TTL: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.In(victim, nil).Start(ctx, chat.ID, run.Request{Prompt: "hello", Timeout: 24 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		if _, err := lock.In(victim).Acquire(ctx, "a", &lock.Options{Owner: "user:1"}); err != nil {
			t.Fatal(err)
		}
		if _, err := kv.In(victim).Set(ctx, "n", "k", []byte(`1`), &kv.SetOptions{TTL: 24 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		recs, err := victim.List(ctx, thole.ListQuery{})
		if err != nil {
			t.Fatal(err)
		}
		copied := thole.Commit{Space: eve.Name(), Now: e.Store.Now(), Actor: "user:eve"}
		for _, r := range recs {
			copied.Writes = append(copied.Writes, thole.Write{Key: r.Key, Value: r.Value, Expires: e.Store.Now(), Notify: r.Notify})
		}
		id := recs[slices.IndexFunc(recs, func(r thole.Record) bool { return strings.HasPrefix(r.Key, "run/run_") })].Key
		for _, key := range []string{
			id + "/deadline", id + "/beat", "lock/b/wait/x",
			id + "/cancelling", "run/" + chat.ID + "/thread-gone", "thread-gone/" + chat.ID,
		} {
			if !slices.ContainsFunc(copied.Writes, func(w thole.Write) bool { return w.Key == key }) {
				copied.Writes = append(copied.Writes, thole.Write{Key: key, Value: []byte(`{}`), Expires: e.Store.Now()})
			}
		}
		if res, err := e.Store.Apply(ctx, []thole.Commit{copied}); err != nil || res[0].Conflict != nil {
			t.Fatal(res, err)
		}
		before, err := e.Store.Backend().Heads(ctx, victim.Name(), "global")
		if err != nil {
			t.Fatal(err)
		}
		e.Clock.Advance(time.Second)
		for range 2 {
			if err := e.Store.Sweep(ctx); err != nil {
				t.Error(err)
			}
		}
		after, err := e.Store.Backend().Heads(ctx, victim.Name(), "global")
		if err != nil {
			t.Fatal(err)
		}
		for i := range before {
			if before[i].Last != after[i].Last {
				t.Errorf("%s went from %s to %s", before[i].Space, before[i].Last, after[i].Last)
			}
		}
		for ev, err := range eve.Events(ctx, thole.ReadQuery{}) {
			if err != nil || ev.Actor != "system" && ev.Actor != "user:eve" {
				t.Errorf("an event in the name of %q: %v %v", ev.Actor, ev.Type, err)
			}
		}
	})
}
