package thole_test

import (
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// A client that gave up on its first try, and repeats the call while the first is still
// running, must not be told that somebody else was there before.
func TestARepeatDuringTheFirstTryIsARepeat(t *testing.T) {
	s, err := thole.Open(t.Context(), memstore.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sp := s.Space("project:shop")
	create := func(tx *thole.Tx) error {
		switch rec, err := tx.Get("name"); {
		case err != nil:
			return err
		case rec.Exists():
			return thole.ErrExists
		}
		tx.Put("name", 1, nil)
		return nil
	}
	first := true
	res, err := sp.Update(thole.WithIdempotencyKey(t.Context(), "k", "f"), func(tx *thole.Tx) error {
		if first {
			first = false
			if _, err := sp.Update(thole.WithIdempotencyKey(t.Context(), "k", "f"), create); err != nil {
				t.Error(err)
			}
		}
		return create(tx)
	})
	if err != nil || !res.Repeated {
		t.Errorf("got %+v, %v; want the first result", res, err)
	}
}
