package main_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/internal/servertest"
)

// A misspelt path makes a store, for a command that may make one, but not silently.
func TestACommandThatMakesAStoreSaysWhere(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "state", "thole.db")
	create := func() string {
		t.Helper()
		got := servertest.Command(t, dir, nil, "token", "create", "ci", "--grant", "project:*=read", "--store", "sqlite:"+store)
		if got.Code != 0 {
			t.Fatalf("token create: %+v", got)
		}
		return got.Err
	}
	if said, want := create(), "a new store was made at "+store; !strings.Contains(said, want) {
		t.Errorf("the first time it said %q, want %q", said, want)
	}
	if said := create(); strings.Contains(said, "new store") {
		t.Errorf("the second time it said %q", said)
	}
}

func TestMigratePrintsOneLineForAStore(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "thole.db")
	if got := servertest.Command(t, dir, nil, "token", "create", "ci", "--grant", "project:*=read", "--store", "sqlite:"+store); got.Code != 0 {
		t.Fatalf("token create: %+v", got)
	}
	for _, args := range [][]string{{"migrate"}, {"migrate", "--dry-run"}} {
		var out struct {
			Store  string    `json:"store"`
			Steps  *[]string `json:"steps"`
			DryRun *bool     `json:"dry_run"`
		}
		got := servertest.Command(t, dir, nil, append(args, "--store", "sqlite:"+store)...)
		if err := json.Unmarshal([]byte(got.Out), &out); err != nil || out.Store != store || out.Steps == nil || out.DryRun == nil || *out.DryRun != (len(args) > 1) {
			t.Errorf("%v: %+v, %v", args, got, err)
		}
	}
}

func TestErrorsSayHowToGiveATokenAndAModel(t *testing.T) {
	s := servertest.Serve(t, t.TempDir())
	for _, token := range [][]string{nil, {"--token", "x"}} {
		servertest.MustFail(t, t.TempDir(), nil, append([]string{"tail", "project:a", "--server", s.URL}, token...), "401", "--token", "THOLE_TOKEN")
	}
	servertest.MustFail(t, t.TempDir(), nil, []string{"dev", "--model", "foo"}, `"foo"`, "openai:MODEL[@URL]", "anthropic:MODEL", "script:FILE", "sample")
}
