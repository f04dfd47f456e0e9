package statetest_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

// A thread's state and a document contained a text, and were then changed often enough
// for snapshots. The erasure of their streams leaves the text nowhere in the space.
func TestNoSnapshotOutlivesTheErasureOfItsStream(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, sp := t.Context(), e.Space("project:shop").As("user:1")
		th, err := thread.In(sp).Create(ctx, nil)
		must(t, "create", err)
		for _, docs := range []*document.Documents{document.Under(sp, thread.Key(th.ID), thread.Key(th.ID)), document.In(sp)} {
			rewrite(t, docs, "state", 12, "canary")
			_, err := docs.Put(ctx, "state", map[string]any{"secret": "removed"}, nil)
			must(t, "put", err)
		}
		// Earlier versions kept it here.
		old := thread.Key(th.ID) + "/snapshot/state/" + thole.NewID("snap")
		_, err = sp.Update(ctx, func(tx *thole.Tx) error { tx.Put(old, "canary", nil); return nil })
		must(t, "put", err)
		if n := len(canaries(t, sp)); n < 3 {
			t.Fatalf("%d records hold the text: no snapshot was made", n)
		}
		must(t, "purge", sp.Purge(ctx, thole.Purge{Streams: []string{thread.Key(th.ID), "document/state"}}))
		if held := canaries(t, sp); len(held) > 0 {
			t.Errorf("after the erasure %q hold it", held)
		}
	})
}

// Versions of a document that only its snapshots still contain can be read after the
// erasure of another stream.
func TestAnErasureLeavesThePastOfOtherDocuments(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, sp := t.Context(), e.Space("project:shop").As("user:1")
		th, err := thread.In(sp).Create(ctx, nil)
		must(t, "create", err)
		docs := document.In(sp)
		at := rewrite(t, docs, "settings", 12, "text")
		res, err := sp.Commit(ctx, thole.Commit{Events: []thole.Event{{Stream: "app/other", Type: "a.b", Data: []byte(`"personal"`)}}})
		must(t, "commit", err)
		must(t, "trim", sp.Purge(ctx, thole.Purge{Before: at[4]}))
		past := func(when string) {
			t.Helper()
			if d, err := docs.Get(ctx, "settings", &document.GetOptions{At: at[10]}); err != nil || !d.Exists {
				t.Errorf("%s: got %v, %v", when, d.Exists, err)
			}
		}
		past("before")
		must(t, "redact", sp.Purge(ctx, thole.Purge{Events: []thole.Position{res.Last}}))
		past("after the redaction of another stream's event")
		must(t, "destroy", thread.In(sp).Destroy(ctx, th.ID, nil))
		must(t, "purge", sp.Purge(ctx, thole.Purge{Streams: []string{thread.Key(th.ID)}}))
		past("after a thread was destroyed and erased")
	})
}

func TestTheSnapshotsOfAThreadsStateGoWithTheThread(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, sp := t.Context(), e.Space("project:shop").As("user:1")
		th, err := thread.In(sp).Create(ctx, nil)
		must(t, "create", err)
		rewrite(t, document.Under(sp, thread.Key(th.ID), thread.Key(th.ID)), "state", 12, "canary")
		must(t, "destroy", thread.In(sp).Destroy(ctx, th.ID, nil))
		if held := canaries(t, sp); len(held) > 0 {
			t.Errorf("%q are left", held)
		}
	})
}

// rewrite puts a large document n times, a little different each time.
func rewrite(t *testing.T, docs *document.Documents, name string, n int, text string) (at []thole.Position) {
	t.Helper()
	for i := range n {
		d, err := docs.Put(t.Context(), name, map[string]string{"text": text, "fixed": strings.Repeat("x", 6000),
			"v": strings.Repeat(fmt.Sprint(i%10), 2000)}, nil)
		must(t, "put", err)
		at = append(at, d.Version)
	}
	return at
}

// canaries returns the keys of the records that contain the text.
func canaries(t *testing.T, sp *thole.Space) (keys []string) {
	t.Helper()
	for rec, err := range sp.Records(t.Context(), "") {
		must(t, "list", err)
		if bytes.Contains(rec.Value, []byte("canary")) {
			keys = append(keys, rec.Key)
		}
	}
	return keys
}
