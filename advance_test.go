package thole_test

import (
	"errors"
	"testing"

	"github.com/thole-dev/thole"
)

func TestAHeadGoesNoFurtherThanTheLastPosition(t *testing.T) {
	head := func() thole.Head {
		return thole.Head{Last: thole.Position{Epoch: "0001aaaaaaaa", Seq: thole.MaxSeq - 2}, Epochs: []thole.Epoch{{Name: "0001aaaaaaaa", First: 1, Last: thole.MaxSeq - 2}}}
	}
	for events, fits := range map[int]bool{0: true, 1: true, 2: true, 3: false, 256: false} {
		h := head()
		r, err := h.Advance(&thole.Commit{Events: make([]thole.Event, events)}, thole.MaxSeq)
		if fits != (err == nil) || !fits && !errors.Is(err, thole.ErrFull) {
			t.Errorf("%d events: got %v", events, err)
		}
		if !fits && (h.Last != head().Last || r.Last != thole.Position{}) {
			t.Errorf("%d events: the head moved to %v", events, h.Last)
		}
	}
}
