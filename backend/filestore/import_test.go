package filestore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/internal/faultfs"
	"github.com/thole-dev/thole/journal"
)

// Whoever imports goes on with the chunk that was not taken, also after a power loss.
func TestAnImportLosesNoChunkThatWasTaken(t *testing.T) {
	const n = 10 // events and records in each chunk
	at := func(seq int) journal.Position { return journal.Position{Epoch: "0001aaaaaaaa", Seq: uint64(seq)} }
	head := journal.Head{Space: "user:1", Oldest: at(1), Last: at(2 * n), Epochs: []journal.Epoch{{Name: "0001aaaaaaaa", First: 1, Last: 2 * n}}}
	chunk := func(first int) journal.Chunk {
		c := journal.Chunk{Head: head, Done: first > 1}
		for seq := first; seq < first+n; seq++ {
			c.Events = append(c.Events, journal.Event{Position: at(seq), Stream: "s", Type: "x.made", Data: fmt.Appendf(nil, `"%0200d"`, seq)})
			c.Records = append(c.Records, journal.Record{Key: fmt.Sprint("k/", seq), Version: at(seq), Value: fmt.Appendf(nil, "%d", seq)})
		}
		return c
	}
	for seed := range uint64(300) {
		disk := faultfs.New(seed)
		s := open(t, "/store", &filestore.Options{FS: disk, Lag: -1, SegmentBytes: 2000})
		for _, first := range []int{1, 1 + n} {
			disk.Fail(faultfs.Faults{faultfs.PowerLoss: 60, faultfs.SyncError: 60})
			err := s.Load(t.Context(), "user:1", chunk(first))
			if disk.Crashed() || err == nil {
				disk = disk.Crash()
			}
			disk.Fail(nil)
			s.Close() // without a disk, or stopped
			s = open(t, "/store", &filestore.Options{FS: disk, Lag: -1, SegmentBytes: 2000})
			if err != nil { // it is sent again
				if err := s.Load(t.Context(), "user:1", chunk(first)); err != nil && !errors.Is(err, journal.ErrExists) {
					t.Fatalf("seed %d: %v", seed, err)
				}
				disk = disk.Crash()
				s.Close()
				s = open(t, "/store", &filestore.Options{FS: disk, Lag: -1, SegmentBytes: 2000})
			}
		}
		page, err := s.Read(t.Context(), "user:1", journal.ReadQuery{})
		if err != nil || len(page.Events) != 2*n {
			t.Errorf("seed %d: got %d events, %v; want %d", seed, len(page.Events), err, 2*n)
		}
		records, err := s.List(t.Context(), "user:1", journal.ListQuery{})
		if err != nil || len(records) != 2*n {
			t.Errorf("seed %d: got %d records, %v; want %d", seed, len(records), err, 2*n)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// Another process may start an import again, in a new file, of which this one has made
// nothing durable.
func TestAnImportThatAnotherStartedAgainIsNotTakenForDurable(t *testing.T) {
	at := func(seq uint64) journal.Position { return journal.Position{Epoch: "0001aaaaaaaa", Seq: seq} }
	load := func(s *filestore.Store, last, seq uint64) error {
		return s.Load(t.Context(), "user:1", journal.Chunk{
			Head:   journal.Head{Space: "user:1", Oldest: at(1), Last: at(last), Epochs: []journal.Epoch{{Name: at(1).Epoch, First: 1, Last: last}}},
			Events: []journal.Event{{Position: at(seq), Stream: "s", Type: "x.made", Data: []byte(`1`)}},
			Done:   seq == last,
		})
	}
	for seed := range uint64(50) {
		disk := faultfs.New(seed)
		ours := open(t, "/store", &filestore.Options{FS: disk, Lag: -1})
		theirs := open(t, "/store", &filestore.Options{FS: disk, Lag: -1})
		if err := load(ours, 3, 1); err != nil {
			t.Fatal(err)
		}
		disk.Fail(faultfs.Faults{faultfs.SyncError: 1})
		if err := load(theirs, 2, 1); err == nil {
			t.Fatal("a chunk whose sync fails: got success")
		}
		disk.Fail(nil)
		if err := load(ours, 2, 1); err != nil {
			t.Fatal(err)
		}
		after := disk.Crash()
		ours.Close()
		theirs.Close()
		s := open(t, "/store", &filestore.Options{FS: after, Lag: -1})
		if err := load(s, 2, 2); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		page, err := s.Read(t.Context(), "user:1", journal.ReadQuery{})
		if err != nil || len(page.Events) != 2 {
			t.Errorf("seed %d: got %d events, %v; want both that were taken", seed, len(page.Events), err)
		}
		s.Close()
	}
}
