package rest_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/thole-dev/thole"
)

func TestACommitLetsOnlyRecordsBelowAppExpire(t *testing.T) {
	s := serve(t, nil)
	const path = "/v1/spaces/project:a/commits"
	for _, key := range []string{"kv/x", "lock/l/wait/1", "document/d", "slot/x", "foo/bar", "app"} {
		s.refuse(400, "invalid", "POST", path, fmt.Sprintf(`{"writes":[{"key":%q,"value":1,"expires_at":"2026-01-01T00:00:00Z","notify":true}]}`, key))
	}
	s.want(201, nil, "POST", path, `{"writes":[{"key":"app/x","value":1,"expires_at":"2026-01-01T00:00:00Z","notify":true}]}`)
}

// A record that an earlier version let an admin write must not make each later write
// fail.
func TestAnExpiredRecordThatCannotBeReadFailsNoLaterWrite(t *testing.T) {
	s := serve(t, nil)
	past := time.Now().Add(-time.Hour)
	for _, key := range []string{"kv/%zz/x", "lock/l/wait/1", "thread/thrd_019b76da000070008000000000000001"} {
		res, err := s.store.Backend().Commit(t.Context(), []thole.Commit{{Space: "project:a", Now: past.Add(-time.Hour),
			Writes: []thole.Write{{Key: key, Value: json.RawMessage("1"), Expires: past, Notify: true}}}})
		if err != nil || res[0].Conflict != nil {
			t.Fatal(res, err)
		}
		s.want(201, nil, "POST", "/v1/spaces/project:a/commits", fmt.Sprintf(`{"writes":[{"key":%q,"value":{}}]}`, key))
	}
}

func TestARecordThatCannotBeReadIsLeftOutOfItsListOnly(t *testing.T) {
	s := serve(t, nil)
	good, bad := s.createThread("project:a", nil), s.createThread("project:a", nil)
	s.want(201, nil, "POST", "/v1/spaces/project:a/commits", fmt.Sprintf(`{"writes":[{"key":"thread/%s","value":"bad"}]}`, bad))
	var list thole.PageOf[struct{ ID string }]
	s.want(200, &list, "GET", "/v1/spaces/project:a/threads", nil)
	if len(list.Items) != 1 || list.Items[0].ID != good {
		t.Errorf("the threads are %v, want %s alone", list.Items, good)
	}
	s.refuse(500, "corrupt", "GET", "/v1/spaces/project:a/threads/"+bad, nil)
}
