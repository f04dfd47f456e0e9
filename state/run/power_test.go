package run_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/internal/faultfs"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// The power fails during a run. Nobody touches its space afterwards: only the sweep can
// end the run.
func TestARunWhoseMachineLostItsPowerIsEndedByTheNextSweep(t *testing.T) {
	for seed := range uint64(5) { // chance decides what the power failure takes
		disk := faultfs.New(seed)
		open := func(ahead time.Duration) *thole.Store {
			log := slog.New(slog.DiscardHandler)
			b, err := filestore.Open(t.Context(), "/store", &filestore.Options{FS: disk, Log: log, Lag: -1})
			if err != nil {
				t.Fatal(err)
			}
			s, err := thole.Open(t.Context(), b, &thole.Options{Concepts: []*thole.Concept{run.Concept}, Sweep: -1, Logger: log, Now: func() time.Time { return time.Now().Add(ahead) }})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s := open(0)
		sp := s.Space("project:a").As("user:1")
		th, err := thread.In(sp).Create(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Space("project:b").Commit(t.Context(), thole.Commit{Writes: []thole.Write{{Key: "app/x", Value: []byte("1")}}}); err != nil {
			t.Fatal(err) // its space is new, which makes the notes about the other one durable
		}
		r, err := run.In(sp, nil).Start(t.Context(), th.ID, run.Request{Prompt: "go"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.In(sp, nil).Claim(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		disk = disk.Crash()
		s.Close()

		s = open(time.Hour)
		if err := s.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		got, err := run.In(s.Space("project:a"), nil).Peek(t.Context(), r.ID)
		if err != nil || !got.Ended() {
			t.Errorf("an hour after the power went: got %s, %v, want a run that has ended", got.Status, err)
		}
		s.Close()
	}
}
