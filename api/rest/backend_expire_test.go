package rest_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/backend/memstore"
)

// TestAnAdminOfOneSpaceStillEndsWhatExpiredThere: the commit that ends a record
// carries the last moment of the record's life, however long ago that was.
func TestAnAdminOfOneSpaceStillEndsWhatExpiredThere(t *testing.T) {
	s := serveWithTokens(t, nil)
	b, err := s.as("user:1", auth.Grant{Space: "project:a", Access: auth.Admin}).dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := time.Now().Add(-time.Minute)
	commit := func(c thole.Commit) error {
		c.Space, c.Now = "project:a", ended.Add(-time.Microsecond)
		res, err := b.Commit(t.Context(), []thole.Commit{c})
		if err == nil && res[0].Conflict != nil {
			err = res[0].Conflict
		}
		return err
	}
	if err := commit(thole.Commit{Writes: []thole.Write{{Key: "mine/x", Value: json.RawMessage("1"), Expires: ended, Notify: true}}}); err != nil {
		t.Fatal(err)
	}
	if err := commit(thole.Commit{Writes: []thole.Write{{Key: "mine/x"}}}); errors.Is(err, thole.ErrConflict) || err != nil {
		t.Errorf("ending it: %v", err)
	}
}

// An admin makes records expire that never do by themselves; the next request, to
// another process on the same data, meets them.
func TestARequestGoesOnWhenWhatItNeedsWasMadeToExpire(t *testing.T) {
	data := memstore.New()
	open := func() *server {
		store, err := thole.Open(t.Context(), kept{data}, &thole.Options{Sweep: -1})
		if err != nil {
			t.Fatal(err)
		}
		return serveStore(t, store, nil)
	}
	a, b := open(), open()
	id := a.createThread("project:a", nil)
	writer, err := a.dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := time.Now().Add(-time.Second)
	c := thole.Commit{Space: "project:a", Now: ended.Add(-time.Minute), Actor: "user:1"}
	for _, key := range []string{"document/d", "slot/%/" + id, "file/f", "lockwaits/user:local"} {
		c.Writes = append(c.Writes, thole.Write{Key: key, Value: json.RawMessage(`{}`), Expires: ended, Notify: true})
	}
	if res, err := writer.Commit(t.Context(), []thole.Commit{c}); err != nil || res[0].Conflict != nil {
		t.Fatal(res, err)
	}
	b.want(200, nil, "PUT", "/v1/spaces/project:a/documents/d", `{"value":1}`)
	b.want(201, nil, "POST", "/v1/spaces/project:a/threads/"+id+"/runs", `{"prompt":"go"}`)
	if err := b.store.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if recs, err := data.List(t.Context(), "project:a", thole.ListQuery{DueBy: time.Now()}); err != nil || len(recs) != 0 {
		t.Errorf("left expired: %v, %v", recs, err)
	}
}
