//go:build faults

package main_test

import "testing"

func TestAWatcherMissesNothingOver200CutsAndTwoRestarts(t *testing.T) {
	s := startServer(t, setup{})
	watchThroughCuts(t, s, 200, []fault{{after: 70, do: s.Kill}, {after: 140, do: s.Terminate}})
	mustBeHealthy(t, s.Store)
}
