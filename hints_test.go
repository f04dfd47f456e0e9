package thole_test

import (
	"context"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// The first hint is for all spaces, so that no commit is missed between the request and
// the first report.
func TestTheFirstHintIsForAllSpaces(t *testing.T) {
	s, err := thole.Open(t.Context(), memstore.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	first := "none"
	if err := s.Hints(ctx, func(space string) { first = space; stop() }); err != nil || first != "" {
		t.Errorf("first hint: got %q, %v; want the one for all", first, err)
	}
}
