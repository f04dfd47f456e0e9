package main_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/internal/servertest"
)

// A server has two files by rules, one of them named in a variable's second line; the
// test then reads each file.
func TestSpacesLiveWhereTheRulesSay(t *testing.T) {
	dir := t.TempDir()
	users, projects := "sqlite:"+filepath.Join(dir, "u", "users.db"), "sqlite:"+filepath.Join(dir, "p", "projects.db")
	s := servertest.Start(t, servertest.Setup{Dir: dir, Store: "user:*=" + users, Args: []string{"--store", "project:*=" + projects}})
	for _, space := range []string{"user:1", "project:a"} {
		s.Must("PUT", "/v1/spaces/"+space+"/kv/n/k", map[string]any{"data": space}, nil)
	}
	if r, err := s.Do(t.Context(), "PUT", "/v1/spaces/org:x/kv/n/k", map[string]any{"data": 1}); err != nil || r.Status != 400 || !strings.Contains(string(r.Body), "user:*, project:*") {
		t.Errorf("a space without a rule: got %+v, %v; want 400 that lists the rules", r, err)
	}
	// Another program uses the server as its store.
	remote := servertest.Command(t, dir, []string{"THOLE_STORE=" + s.URL}, "get", "user:1")
	if remote.Code != 0 || !strings.Contains(remote.Out, "kv/n/k") {
		t.Errorf("get from the server: %+v", remote)
	}
	s.Kill()
	for dsn, want := range map[string]string{users: "user:1", projects: "project:a"} {
		got := servertest.Command(t, dir, nil, "get", "--store", dsn)
		if got.Code != 0 || !strings.Contains(got.Out, want) || strings.Count(got.Out, "user:")+strings.Count(got.Out, "project:") != 1 {
			t.Errorf("%s holds %q, want %s alone", want, got.Out, want)
		}
	}
	both := servertest.Command(t, dir, []string{"THOLE_STORE=user:*=" + users + "\nproject:*=" + projects}, "get")
	if both.Code != 0 || !strings.Contains(both.Out, "user:1") || !strings.Contains(both.Out, "project:a") {
		t.Errorf("get from both: %+v", both)
	}
	servertest.MustFail(t, dir, nil, []string{"get", "--store", users, "--store", projects}, "PATTERN=DSN")
	servertest.MustFail(t, dir, nil, []string{"get", "--store", "http://127.0.0.1:1"}, "cannot be reached")
}
