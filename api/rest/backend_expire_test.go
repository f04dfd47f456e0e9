package rest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/remote"
)

// The commit that ends a record carries the last moment of the record's life, however
// long ago that was.
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

// An admin gives an expiry to records that never expire by themselves. The next
// request, to another process on the same data, finds them expired.
func TestARequestGoesOnWhenWhatItNeedsWasMadeToExpire(t *testing.T) {
	data := memstore.New()
	open := func() *server {
		store, err := thole.Open(t.Context(), kept{data}, &thole.Options{Concepts: rest.Concepts(), Sweep: -1})
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

// In Go, the first moment of the year 1 is the zero time, which means never.
func TestATimeOfTheYear1IsNotTakenForNone(t *testing.T) {
	s := serve(t, nil)
	var hello remote.Hello
	s.want(200, &hello, "GET", remote.Root, nil)
	for i, at := range []string{"0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z", "0001-01-01T01:00:00+01:00"} {
		p := s.refuse(400, "invalid", "POST", "/v1/spaces/project:a/commits", `{"writes":[{"key":"app/x","value":1},{"key":"app/y","value":1,"expires_at":"`+at+`"}]}`)
		if p.Field != "/writes/1/expires_at" {
			t.Errorf("commit of %s: field = %q (%s), want /writes/1/expires_at", at, p.Field, p.Detail)
		}
		message := `{"batch":[{"space":"project:a","now":"2026-01-31T12:00:00Z","writes":[{"key":"app/x","expires":"` + at + `","bytes":1}]}]}` + "\n1"
		p = s.refuse(400, "invalid", "POST", remote.Root+"/commit", message, "Content-Type", remote.MediaType,
			remote.HeaderInstance, hello.Instance, remote.HeaderChange, fmt.Sprintf("client %d 1", i+1))
		if !strings.Contains(p.Detail, "expires") {
			t.Errorf("commit of a backend of %s: %s, want expires named", at, p.Detail)
		}
		p = s.refuse(400, "invalid", "GET", "/v1/spaces/project:a/events?until="+url.QueryEscape(at), nil)
		if p.Field != "until" {
			t.Errorf("events until %s: field = %q (%s), want until", at, p.Field, p.Detail)
		}
	}
	if rec, err := s.store.Space("project:a").Get(t.Context(), "app/x"); err != nil || rec.Exists() {
		t.Errorf("a refused commit left %v, %v", rec, err)
	}
}
