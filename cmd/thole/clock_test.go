//go:build linux

package main_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

// A server is restarted as if the machine's clock had been set back by an hour. Because
// others use that clock too, the test instead moves all times in the file forward.
// Leases end a ttl after the start, not an hour later, and doctor names the difference.
func TestAServerWhoseClockIsAnHourBehindItsStoreGoesOn(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{Script: servertest.Script(t, "slow.yaml"), Lease: 2 * time.Second})
	const space = "/v1/spaces/project:clock"
	run := s.Ask(space, "Sleep for a minute")
	servertest.Eventually(t, 20*time.Second, "the run works", func() bool { return len(s.Workers()) > 0 })
	s.Must("POST", space+"/locks", map[string]any{"name": "a", "owner": "gone", "ttl": 3}, nil)
	s.Kill()
	sql(t, filepath.Join(s.Dir, "thole.db"), `
		UPDATE event SET time = time + 3600000000;
		UPDATE record SET updated = updated + 3600000000, expires = expires + 3600000000`)
	s.Start()

	if r := s.Ended(run, 20*time.Second); r.Status != "crashed" {
		t.Errorf("run: got %+v, want crashed", r)
	}
	var held struct{ Owner string }
	s.Must("POST", space+"/locks", map[string]any{"name": "a", "owner": "next", "wait": 20}, &held)
	if r := s.Ended(s.Ask(space, "Tell me a long story"), 30*time.Second); r.Status != "succeeded" {
		t.Errorf("a run afterwards: got %+v", r)
	}
	s.Terminate()
	servertest.MustBeHealthy(t, s.Store)
	if got := servertest.Command(t, s.Dir, nil, "doctor", "--store", s.Store); !strings.Contains(got.Out, "ahead of this machine's clock") {
		t.Errorf("doctor does not tell of times ahead: %+v", got)
	}
}
