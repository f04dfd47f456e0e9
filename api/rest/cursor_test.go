package rest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/thread"
)

// More than a page of items that a caller may not know is between items that it may
// know: no cursor names them.
func TestNoCursorNamesWhatTheCallerMayNotKnow(t *testing.T) {
	const hidden = 30
	s := serveWithTokens(t, nil)
	grant := auth.Grant{Space: "project:a", Access: auth.Write}
	owner, stranger := s.as("user:1", grant), s.as("user:2", grant)
	secrets := make(map[string]string)
	shown := make(map[string]int)
	sp := s.store.Space("project:a").As("user:1")
	make1 := func(visibility string) (threadID, decisionID string) {
		id := owner.createThread("project:a", fmt.Sprintf(`{"visibility":%q}`, visibility))
		d, err := decision.In(sp).Plan(t.Context(), decision.Plan{Action: "act", Thread: id})
		if err != nil {
			t.Fatal(err)
		}
		return id, d.ID
	}
	lists := map[string]string{
		"threads": "/v1/spaces/project:a/threads", "decisions": "/v1/spaces/project:a/decisions",
		"open decisions": "/v1/spaces/project:a/decisions?incomplete=true", "spaces": "/v1/spaces",
	}
	for i := range hidden {
		if i%10 == 5 {
			threadID, decisionID := make1(thread.ForSpace)
			shown[threadID], shown[decisionID] = 1, 2
		}
		threadID, decisionID := make1(thread.Private)
		secrets[threadID], secrets[decisionID] = "a private thread", "a decision in a private thread"
		name := fmt.Sprintf("project:b%02d", i)
		secrets[name] = "a space"
		if _, err := decision.In(s.store.Space(name)).Plan(t.Context(), decision.Plan{Action: "act"}); err != nil {
			t.Fatal(err)
		}
	}
	shown["project:a"] = 1
	for name, path := range lists {
		seen := make(map[string]int)
		cursor := ""
		for pages := 0; ; pages++ {
			sep := "?"
			if strings.Contains(path, "?") {
				sep = "&"
			}
			res := stranger.do("GET", path+sep+"limit=1"+after(cursor), nil)
			var p struct {
				Items []struct{ ID, Name string }
				Next  string `json:"next_cursor"`
			}
			if err := json.Unmarshal(res.body, &p); err != nil || res.status != 200 || pages > 3*hidden {
				t.Fatalf("%s: page %d: %d %s", name, pages, res.status, res.body)
			}
			for id, what := range secrets {
				if strings.Contains(string(res.body), id) {
					t.Errorf("%s: the page after %q names %s: %s", name, cursor, what, res.body)
				}
			}
			for _, it := range p.Items {
				seen[it.ID+it.Name]++
			}
			if cursor = p.Next; cursor == "" {
				break
			}
		}
		for id, n := range seen {
			if shown[id] == 0 || n != 1 {
				t.Errorf("%s: %s is there %d times", name, id, n)
			}
		}
		if len(seen) == 0 {
			t.Errorf("%s: nothing is shown", name)
		}
	}
}
