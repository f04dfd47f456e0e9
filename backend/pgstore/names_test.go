package pgstore

import (
	"fmt"
	"testing"
)

func TestUnreportedSpacesTakeBoundedMemory(t *testing.T) {
	set := names{}
	for i := range 10 * maxTouched {
		set.add([]string{fmt.Sprint("user:", i)})
	}
	if len(set) > maxTouched || !set[""] {
		t.Errorf("got %d names, with the one for all: %v; want at most %d, and all", len(set), set[""], maxTouched)
	}
}
