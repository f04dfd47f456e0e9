package thole_test

import (
	"context"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// TestWhoTakesHintsChecksAllFirst is so that none is missed between the time
// when they asked and the time when they are told.
func TestWhoTakesHintsChecksAllFirst(t *testing.T) {
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
