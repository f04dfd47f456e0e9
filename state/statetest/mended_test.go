package statetest_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/all"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// holding returns a backend with what b contains, but with bad in the place of each
// "here", as a program of an earlier version or a person with an editor wrote it.
func holding(t *testing.T, b journal.Backend, space, bad string) journal.Backend {
	t.Helper()
	put := func(data json.RawMessage) json.RawMessage {
		return bytes.ReplaceAll(data, []byte(`"here"`), []byte(bad))
	}
	heads, err := b.Heads(t.Context(), space)
	if err != nil {
		t.Fatal(err)
	}
	page, err := b.Read(t.Context(), space, journal.ReadQuery{Limit: journal.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	records, err := b.List(t.Context(), space, journal.ListQuery{Limit: journal.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	for i := range page.Events {
		page.Events[i].Data = put(page.Events[i].Data)
	}
	for i := range records {
		records[i].Value = put(records[i].Value)
	}
	to := memstore.New()
	if err := to.Load(t.Context(), space, journal.Chunk{Head: heads[0], Events: page.Events, Records: records, Done: true}); err != nil {
		t.Fatal(err)
	}
	return to
}

// Earlier versions accepted half a surrogate pair and numbers of any size.
func TestWhatAnEarlierVersionAcceptedCanBeReadChangedAndRemoved(t *testing.T) {
	for bad, reads := range map[string]string{`"\ud83d"`: `"\ufffd"`, `1e9999`: `"1e9999"`, "-" + strings.Repeat("7", 2000): `"-` + strings.Repeat("7", 2000) + `"`} {
		t.Run(bad[:min(len(bad), 10)], func(t *testing.T) {
			ctx, space, here := t.Context(), "project:shop", json.RawMessage(`{"a":["here"]}`)
			now := time.Now()
			options := &thole.Options{Concepts: all.Concepts(), Sweep: -1, Now: func() time.Time { return now }}
			open := func(b journal.Backend) (*thole.Store, *thole.Space) {
				s, err := thole.Open(ctx, b, options)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				return s, s.Space(space)
			}
			try := func(what string, err error) {
				t.Helper()
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}

			s, sp := open(memstore.New())
			threads := thread.In(sp)
			var ids []string
			for _, ttl := range []time.Duration{0, time.Hour} {
				th, err := threads.Create(ctx, &thread.CreateOptions{TTL: ttl, Metadata: map[string]json.RawMessage{"m": here}})
				try("create", err)
				ids = append(ids, th.ID)
				_, err = threads.Append(ctx, th.ID, thread.Message{Role: thread.User, Blocks: []thread.Block{{Type: "text", Content: "hi", Meta: map[string]json.RawMessage{"m": here}}}}, nil)
				try("append", err)
				_, err = sp.Commit(ctx, thole.Commit{Writes: []thole.Write{{Key: "thread/" + th.ID + "/state", Value: here}}})
				try("state", err)
			}
			started, err := run.In(sp, nil).Start(ctx, ids[0], run.Request{Prompt: "go", Options: here})
			try("start", err)
			d, err := decision.In(sp).Plan(ctx, decision.Plan{Action: "publish", Input: here})
			try("plan", err)
			_, err = document.In(sp).Put(ctx, "d", here, nil)
			try("document", err)
			_, err = kv.In(sp).Set(ctx, "n", "k", here, &kv.SetOptions{TTL: time.Hour})
			try("kv", err)
			_, err = sp.Update(ctx, func(tx *thole.Tx) error {
				tx.Put("app/x", here, &thole.WriteOptions{Expires: now.Add(time.Hour), Notify: true})
				tx.Put("app/x/below", here, nil)
				tx.Emit("app/s", "x.y", here)
				return nil
			})
			try("records of an application", err)

			_, sp = open(holding(t, s.Backend(), space, bad))
			threads = thread.In(sp)
			th, err := threads.Get(ctx, ids[0])
			try("get the thread", err)
			if got, want := string(th.Metadata["m"]), `{"a":[`+reads+`]}`; got != want {
				t.Errorf("metadata: got %.40s, want %.40s", got, want)
			}
			for event, err := range sp.Events(ctx, thole.ReadQuery{}) {
				try("read", err)
				try("event "+event.Type, journal.CheckJSON("its data", event.Data))
			}
			_, err = threads.Append(ctx, ids[0], thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock("more")}}, nil)
			try("append to the old thread", err)
			title := "new"
			_, err = threads.Patch(ctx, ids[0], thread.Patch{Title: &title}, nil)
			try("patch it", err)
			_, err = run.In(sp, nil).Cancel(ctx, started.ID, "user")
			try("cancel its run", err)
			try("destroy it", threads.Destroy(ctx, ids[0], nil))
			_, err = decision.In(sp).Resolve(ctx, d.ID, decision.Done, nil)
			try("resolve the decision", err)
			_, err = document.In(sp).Apply(ctx, "d", []document.Op{{Op: "increment", Path: "/n"}}, nil)
			try("change the document", err)
			_, err = document.In(sp).Delete(ctx, "d", nil)
			try("delete it", err)

			now = now.Add(2 * time.Hour)
			try("sweep", sp.Store().Sweep(ctx))
			for _, key := range []string{"thread/" + ids[1], "thread/" + ids[1] + "/state", "app/x", "app/x/below", "kv/n/k"} {
				recs, err := sp.Store().Backend().Get(ctx, space, key)
				try("get "+key, err)
				if recs[0].Exists() {
					t.Errorf("%s has not ended", key)
				}
			}
		})
	}
}
