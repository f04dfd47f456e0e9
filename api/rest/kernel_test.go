package rest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/journal/problem"
)

// kernelNames are keys and streams that the server acts on by itself, or that say who
// may do what.
var kernelNames = []string{
	"outbox/out_1", "sent/out_1", "idem/0123/0", "token/tok_1", "token", "snap/f/1", "erased", "blob/00", "chunk/00", "upload/00",
	"sweeper/owner", "sweeper/kv/beat", "run/run_1/owner", "run/run_1/beat", "lock/a/owner", "lock/a/intent/b/beat",
}

// From outside, only an admin of all spaces writes, removes, imports or checks the
// kernel's records: neither an admin of the space nor one of global.
func TestOnlyAnAdminOfEverythingTouchesWhatIsTheKernels(t *testing.T) {
	all := serveWithTokens(t, nil)
	value := json.RawMessage("1")
	for _, tt := range []struct {
		grant  auth.Grant
		spaces []string
		may    bool
	}{
		{auth.Grant{Space: "*", Access: auth.Admin}, []string{"project:a", "global"}, true},
		{auth.Grant{Space: "project:*", Access: auth.Admin}, []string{"project:b"}, false},
		{auth.Grant{Space: "project:c", Access: auth.Admin}, []string{"project:c"}, false},
		{auth.Grant{Space: "global", Access: auth.Admin}, []string{"global"}, false},
	} {
		s := all.as("user:eve", tt.grant)
		b, err := s.dial(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, space := range tt.spaces {
			check := func(what string, got error) {
				t.Helper()
				if tt.may && got != nil || !tt.may && !errors.Is(got, problem.ErrForbidden) {
					t.Errorf("%+v: %s in %s: got %v; may: %t", tt.grant, what, space, got, tt.may)
				}
			}
			status := func(what string, r reply) {
				t.Helper()
				if want := map[bool]int{true: 201, false: 403}[tt.may]; r.status != want {
					t.Errorf("%+v: %s in %s: got %d %s, want %d", tt.grant, what, space, r.status, r.body, want)
				}
			}
			for _, name := range kernelNames {
				path := "/v1/spaces/" + space
				if name != "token" {
					status("a raw write of "+name, s.do("POST", path+"/commits", fmt.Sprintf(`{"writes":[{"key":%q,"value":1}]}`, name)))
				}
				status("an event in "+name, s.do("POST", path+"/events", fmt.Sprintf(`{"type":"a.b","stream":%q}`, name)))
				raw := func(c thole.Commit) error {
					c.Space, c.Now, c.Actor = space, time.Now(), "user:eve"
					r, err := b.Commit(t.Context(), []thole.Commit{c})
					if err == nil && r[0].Conflict != nil && len(c.Checks) == 0 {
						t.Errorf("%s: %v", name, r[0].Conflict)
					}
					return err
				}
				check("a write of "+name, raw(thole.Commit{Writes: []thole.Write{{Key: name, Value: value}}}))
				check("a deletion of "+name, raw(thole.Commit{Writes: []thole.Write{{Key: name}}}))
				check("an event in "+name, raw(thole.Commit{Events: []thole.Event{{Stream: name, Type: "a.b", Data: value}}}))
				check("a check of "+name, raw(thole.Commit{Checks: []thole.Check{{Key: name}}, Events: []thole.Event{{Stream: "app/x", Type: "a.b", Data: value}}}))
				check("a purge of "+name, b.Purge(t.Context(), space, thole.Purge{Streams: []string{name}}))
			}
		}
		// The import creates the space.
		space := map[string]string{"*": "project:n1", "project:*": "project:n2", "project:c": "project:c", "global": "global"}[tt.grant.Space]
		at := thole.Position{Epoch: journal.NewEpoch(1), Seq: 1}
		err = b.Load(t.Context(), space, journal.Chunk{
			Head:    thole.Head{Space: space, Oldest: at, Last: at, Epochs: []journal.Epoch{{Name: at.Epoch, First: 1, Last: 1}}},
			Records: []thole.Record{{Key: "outbox/out_1", Value: value, Version: at, Updated: time.Now().UTC()}}, Done: true,
		})
		if tt.may && err != nil || !tt.may && !errors.Is(err, problem.ErrForbidden) {
			t.Errorf("%+v: an import with an intent: got %v; may: %t", tt.grant, err, tt.may)
		}
		if !tt.may && tt.grant.Space == "global" {
			if err := b.Purge(t.Context(), "global", thole.Purge{All: true}); !errors.Is(err, problem.ErrForbidden) {
				t.Errorf("an admin of global removes all tokens: got %v", err)
			}
		}
		b.Close()
	}
}

// Names that only look like the kernel's belong to the application.
func TestAnApplicationsOwnNamesAreNotTheKernels(t *testing.T) {
	s := serveWithTokens(t, nil).as("user:1", auth.Grant{Space: "project:a", Access: auth.Write})
	for _, name := range []string{"app/outbox/x", "app/job/owner", "app/job/7/beat", "app/token"} {
		if r := s.do("POST", "/v1/spaces/project:a/commits", fmt.Sprintf(`{"writes":[{"key":%q,"value":1}]}`, name)); r.status != 201 {
			t.Errorf("%s: got %d %s, want 201", name, r.status, r.body)
		}
	}
	for path, body := range map[string]string{"/kv/ns/owner": `{"data":1}`, "/kv/ns/beat": `{"data":1}`, "/documents/owner": `{"value":{}}`} {
		if r := s.do("PUT", "/v1/spaces/project:a"+path, body); r.status >= 300 {
			t.Errorf("%s: got %d %s", path, r.status, r.body)
		}
	}
}
