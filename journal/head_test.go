package journal_test

import (
	"errors"
	"testing"

	"github.com/thole-dev/thole/journal"
)

func TestAHeadGoesNoFurtherThanTheLastPosition(t *testing.T) {
	head := func() journal.Head {
		return journal.Head{Last: journal.Position{Epoch: "0001aaaaaaaa", Seq: journal.MaxSeq - 2}, Epochs: []journal.Epoch{{Name: "0001aaaaaaaa", First: 1, Last: journal.MaxSeq - 2}}}
	}
	for events, fits := range map[int]bool{0: true, 1: true, 2: true, 3: false, 256: false} {
		h := head()
		r, err := h.Advance(&journal.Commit{Events: make([]journal.Event, events)}, journal.MaxSeq)
		if fits != (err == nil) || !fits && !errors.Is(err, journal.ErrFull) {
			t.Errorf("%d events: got %v", events, err)
		}
		if !fits && (h.Last != head().Last || r.Last != journal.Position{}) {
			t.Errorf("%d events: the head moved to %v", events, h.Last)
		}
	}
}
