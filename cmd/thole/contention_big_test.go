//go:build faults

package main_test

import (
	"path/filepath"
	"testing"

	"github.com/thole-dev/thole/internal/effort"
)

// increments is how many each client makes.
func increments() int { return effort.Amount(50, 50, 200) }

func TestIncrementsOf64ClientsAllCount(t *testing.T) {
	countTogether(t, []*server{startServer(t, setup{})}, 64, increments())
}

func TestIncrementsThroughTwoServersOnOneFileAllCount(t *testing.T) {
	first := startServer(t, setup{})
	second := startServer(t, setup{Store: first.Store})
	countTogether(t, []*server{first, second}, 64, increments())
}

func TestIncrementsOfTwoProcessesWith32GoroutinesAllCount(t *testing.T) {
	load{filepath.Join(t.TempDir(), "thole.db"), 2, 32, increments()}.together(t)
}

func TestAppendsOf64ClientsWithIfMatchLoseNothing(t *testing.T) {
	appendTogether(t, startServer(t, setup{}), 64, 10)
}
