package main_test

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/internal/servertest"
)

func TestStateSurvivesARestartAndAKill(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{})
	const item = "/v1/spaces/project:x/kv/a/b"
	s.Must("PUT", item, map[string]any{"data": 1}, nil)
	before := s.Events("project:x")
	for name, end := range map[string]func(){"SIGTERM": s.Terminate, "SIGKILL": s.Kill} {
		end()
		s.Start()
		if got := string(s.Must("GET", item, nil, nil).Body); !strings.Contains(got, `"data":1`) {
			t.Errorf("the value after %s: got %s, want 1", name, got)
		}
		if after := s.Events("project:x"); len(after) != 1 || after[0].Text != before[0].Text {
			t.Errorf("the events after %s: got %v, want %v", name, after, before)
		}
	}
	servertest.MustBeHealthy(t, s.Store)
}
