//go:build linux

package main_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"
)

// TestAServerWhoseClockIsAnHourBehindItsStoreGoesOn restarts a server as if the
// machine's clock had been set back by an hour meanwhile: instead of the clock,
// which others use too, all times in the file are moved on. What had a time to
// live ends when that is over, not an hour later, and no event is dated before
// an older one.
func TestAServerWhoseClockIsAnHourBehindItsStoreGoesOn(t *testing.T) {
	s := startServer(t, setup{Script: script(t, "slow.yaml"), Lease: 2 * time.Second})
	const space = "/v1/spaces/project:clock"
	run := s.ask(space, "Sleep for a minute")
	eventually(t, 20*time.Second, "the run works", func() bool { return len(s.workers()) > 0 })
	s.Must("PUT", space+"/kv/n/short?ttl=3", map[string]any{"data": 1}, nil)
	s.Must("POST", space+"/locks", map[string]any{"name": "a", "owner": "gone", "ttl": 3}, nil)
	s.Kill()
	sql(t, filepath.Join(s.Dir, "thole.db"), `
		UPDATE event SET time = time + 3600000000;
		UPDATE record SET updated = updated + 3600000000, expires = expires + 3600000000`)
	s.Start()

	if r := s.ended(run, 20*time.Second); r.Status != "crashed" {
		t.Errorf("run: got %+v, want crashed", r)
	}
	var held struct{ Owner string }
	s.Must("POST", space+"/locks", map[string]any{"name": "a", "owner": "next", "wait": 20}, &held)
	eventually(t, 20*time.Second, "a value whose time is over is gone", func() bool {
		var v struct{ Exists bool }
		s.Must("GET", space+"/kv/n/short", nil, &v)
		return !v.Exists
	})
	var last time.Time
	for _, e := range s.Events("project:clock") {
		var at struct{ Time time.Time }
		if err := json.Unmarshal([]byte(e.text), &at); err != nil {
			t.Fatal(err)
		}
		if at.Time.Before(last) {
			t.Errorf("%s is dated %v, after one of %v", e.Position, at.Time, last)
		}
		last = at.Time
	}
	if last.Before(time.Now().Add(50 * time.Minute)) {
		t.Errorf("the last event is dated %v; time did not go on from the store's", last)
	}
	if r := s.ended(s.ask(space, "Tell me a long story"), 30*time.Second); r.Status != "succeeded" {
		t.Errorf("a run afterwards: got %+v", r)
	}
	s.Terminate()
	mustBeHealthy(t, s.Store)
}
