package cycle_test

import (
	"slices"
	"testing"

	"github.com/thole-dev/thole/internal/cycle"
)

func TestEachCycleIsFound(t *testing.T) {
	below := map[string][]string{
		"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, // two ways to d are no cycle
		"x": {"y"}, "y": {"z"}, "z": {"x", "y"},
		"own": {"own"},
	}
	var got []string
	cycle.Find(below, func(from, to string) { got = append(got, from+to) })
	if want := []string{"ownown", "zx", "zy"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(below["z"]) != 2 {
		t.Errorf("the graph was changed: %q", below)
	}
}
