package rest_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
)

func TestATenantMovesNoClock(t *testing.T) {
	s := serveWithTokens(t, nil)
	b, err := s.as("user:1", auth.Grant{Space: "project:a", Access: auth.Admin}).dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{
		time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		time.Now().Add(time.Hour), time.Now().Add(3 * time.Second),
	} {
		_, err := b.Commit(t.Context(), []thole.Commit{{
			Space: "project:a", Now: at,
			Events: []thole.Event{{Stream: "app/x", Type: "x.y"}},
			Writes: []thole.Write{{Key: "app/x", Value: json.RawMessage("1")}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		page, err := b.Read(t.Context(), "project:a", thole.ReadQuery{Backward: true, Limit: 1})
		if err != nil || len(page.Events) != 1 {
			t.Fatal(page, err)
		}
		if got := page.Events[0].Time; time.Since(got).Abs() > 2*time.Second {
			t.Errorf("a commit of %s: stored at %s, want about the server's time", at, got)
		}
		if by := time.Until(s.store.Now().Round(0)); by > time.Second || s.store.ClockLead() != 0 {
			t.Errorf("after a commit of %s the server's clock is %v ahead, its lead %v", at, by, s.store.ClockLead())
		}
	}
}
