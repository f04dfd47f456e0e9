package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/internal/servertest"
)

func TestTheAgentsStoreLiesOutsideOfItsProject(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	got := servertest.Command(t, dir, []string{"XDG_STATE_HOME=" + state}, "agent", "--dir", ".", "Hello")
	if servertest.Exists(dir, ".thole") {
		t.Error("the store is in the project, where commands change it")
	}
	found, err := filepath.Glob(filepath.Join(state, "thole", filepath.Base(dir)+"-*", "thole.db"))
	if err != nil || len(found) != 1 || !strings.Contains(got.Err, "--store sqlite:"+found[0]) {
		t.Fatalf("stores %v, %v; want one, which is reported: %s", found, err, got.Err)
	}
	if strings.Contains(got.Err, "change the store") {
		t.Errorf("got a warning of a store inside: %s", got.Err)
	}
	if got := servertest.Command(t, dir, []string{"XDG_STATE_HOME=" + state}, "agent", "Hello"); !strings.Contains(got.Err, found[0]) {
		t.Errorf("the next start uses another store: %s", got.Err)
	}
}

func TestAStoreInsideOfTheProjectStaysAndIsWarnedOf(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	makeToken(t, dir, ".thole/thole.db")
	for _, args := range [][]string{{"agent", "Hello"}, {"agent", "--store", "file:state", "Hello"}} {
		got := servertest.Command(t, dir, []string{"XDG_STATE_HOME=" + state}, args...)
		if !strings.Contains(got.Err, "commands can read and change the store") {
			t.Errorf("%v said nothing of its store: %s", args, got.Err)
		}
	}
	if left, err := os.ReadDir(state); err != nil || len(left) != 0 {
		t.Errorf("got %v, %v in the state folder; want nothing", left, err)
	}
}

func TestAHomeIsNoProject(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "project")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, use := range []string{"agent --dir /", "agent --dir ..", "dev --dir ..", "dev --dir " + home} {
		servertest.MustFail(t, dir, []string{"HOME=" + home}, append(strings.Fields(use), "--store", "mem:"), "home", "--bash-unconfined")
	}
}
