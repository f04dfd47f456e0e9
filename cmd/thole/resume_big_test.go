//go:build faults

package main_test

import (
	"testing"

	"github.com/thole-dev/thole/internal/effort"
)

func TestAWatcherMissesNothingOverManyCutsAndTwoRestarts(t *testing.T) {
	s := startServer(t, setup{})
	cuts := effort.Amount(60, 60, 200)
	watchThroughCuts(t, s, cuts, []fault{{after: cuts / 3, do: s.Kill}, {after: 2 * cuts / 3, do: s.Terminate}})
	mustBeHealthy(t, s.Store)
}
