package wire_test

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/pgstore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/journal"
)

// engines runs a test on a server on each engine.
func engines(t *testing.T, test func(t *testing.T, s *server)) {
	open := map[string]func(t *testing.T) (journal.Backend, error){
		"mem":  func(*testing.T) (journal.Backend, error) { return memstore.New(), nil },
		"file": func(t *testing.T) (journal.Backend, error) { return filestore.Open(t.Context(), t.TempDir(), nil) },
		"sqlite": func(t *testing.T) (journal.Backend, error) {
			return sqlite(t, filepath.Join(t.TempDir(), "thole.db")), nil
		},
	}
	if effort.All() {
		open["postgres"] = func(t *testing.T) (journal.Backend, error) {
			return pgstore.Open(t.Context(), pgtest.Start(t).Database(t))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(open)) {
		t.Run(name, func(t *testing.T) {
			b, err := open[name](t)
			if err != nil {
				t.Fatal(err)
			}
			test(t, serve(t, b))
		})
	}
}

var (
	afterAll  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)) // the year 10000 in UTC
	beforeAll = time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600))          // the year −1
)

func TestACommitThroughAServerBringsNothingThatNoStoreKeeps(t *testing.T) {
	bad := map[string]func(c *journal.Commit){
		"an expiry after all times":  func(c *journal.Commit) { c.Writes[0].Expires = afterAll },
		"an expiry before all times": func(c *journal.Commit) { c.Writes[0].Expires = beforeAll },
		"a time after all times":     func(c *journal.Commit) { c.Now = afterAll },
		"a time before all times":    func(c *journal.Commit) { c.Now = beforeAll },
		"no time":                    func(c *journal.Commit) { c.Now = time.Time{} },
		"a value that cannot be told of when it ends": func(c *journal.Commit) {
			c.Writes[0].Value, c.Writes[0].Notify = []byte(`"`+string(make512())+`"`), true
		},
	}
	engines(t, func(t *testing.T, s *server) {
		b := dial(t, s.URL, nil)
		good := func() journal.Commit {
			return journal.Commit{
				Space: "project:c", Now: time.Now(),
				Events: []journal.Event{{Stream: "app/s", Type: "a.b", Data: []byte("1")}},
				Writes: []journal.Write{{Key: "app/x", Value: []byte("1"), Expires: time.Now().Add(time.Hour)}},
			}
		}
		for what, change := range bad {
			c := good()
			change(&c)
			if _, err := b.Commit(t.Context(), []journal.Commit{c}); !errors.Is(err, journal.ErrInvalid) && !errors.Is(err, journal.ErrTooLarge) {
				t.Errorf("%s: got %v, want ErrInvalid", what, err)
			}
		}
		if _, err := b.Commit(t.Context(), []journal.Commit{good()}); err != nil {
			t.Errorf("then a good one: %v", err)
		}
		page, err := s.store.Space("project:c").Read(t.Context(), journal.ReadQuery{})
		if err != nil || len(page.Events) != 1 {
			t.Errorf("the journal: got %d events, %v; want the good one", len(page.Events), err)
		}
	})
}

func make512() []byte {
	b := make([]byte, journal.MaxValueBytes-2)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

func TestAnImportThroughAServerBringsNothingThatNoStoreKeeps(t *testing.T) {
	bad := map[string]func(c *journal.Chunk){
		"an expiry after all times":           func(c *journal.Chunk) { c.Records[0].Expires = afterAll },
		"a record's time before all times":    func(c *journal.Chunk) { c.Records[0].Updated = beforeAll },
		"an event's time after all times":     func(c *journal.Chunk) { c.Events[0].Time = afterAll },
		"an event's time before all times":    func(c *journal.Chunk) { c.Events[0].Time = beforeAll },
		"a key twice":                         func(c *journal.Chunk) { c.Records = append(c.Records, c.Records[0]) },
		"events that are not in order":        func(c *journal.Chunk) { slices.Reverse(c.Events) },
		"an event before the oldest":          func(c *journal.Chunk) { c.Head.Oldest.Seq = 2 },
		"no oldest":                           func(c *journal.Chunk) { c.Head.Oldest = journal.Position{} },
		"an oldest beyond the end":            func(c *journal.Chunk) { c.Head.Oldest.Seq = 5; c.Events = nil },
		"an oldest of no epoch":               func(c *journal.Chunk) { c.Head.Oldest.Epoch = "0009aaaaaaaa" },
		"an epoch from 0":                     func(c *journal.Chunk) { c.Head.Epochs[0].First = 0 },
		"an epoch that ends before it starts": func(c *journal.Chunk) { c.Head.Epochs[0].First = 9 },
		"an epoch twice": func(c *journal.Chunk) {
			c.Head.Epochs = append([]journal.Epoch{c.Head.Epochs[0]}, c.Head.Epochs...)
		},
		"epochs with a gap": func(c *journal.Chunk) {
			c.Head.Epochs = append(c.Head.Epochs, journal.Epoch{Name: "0002aaaaaaaa", First: 9, Last: 9})
			c.Head.Last = journal.Position{Epoch: "0002aaaaaaaa", Seq: 9}
		},
		"epochs out of order": func(c *journal.Chunk) {
			c.Head.Epochs = append(c.Head.Epochs, journal.Epoch{Name: "0000aaaaaaaa", First: 4, Last: 4})
			c.Head.Last = journal.Position{Epoch: "0000aaaaaaaa", Seq: 4}
		},
		"the last position of all": func(c *journal.Chunk) {
			c.Head.Epochs[0].Last, c.Head.Last.Seq = journal.MaxSeq-1, journal.MaxSeq-1
		},
	}
	engines(t, func(t *testing.T, s *server) {
		b := dial(t, s.URL, nil)
		good := func() journal.Chunk {
			at := func(seq uint64) journal.Position { return journal.Position{Epoch: "0001aaaaaaaa", Seq: seq} }
			return journal.Chunk{
				Head: journal.Head{Space: "project:c", Oldest: at(1), Last: at(3), Epochs: []journal.Epoch{{Name: "0001aaaaaaaa", First: 1, Last: 3}}},
				Events: []journal.Event{
					{Position: at(1), Stream: "app/s", Type: "a.b", Time: time.Now(), Data: []byte("1")},
					{Position: at(2), Stream: "app/s", Type: "a.b", Refs: []string{""}, Data: []byte("1e999999999")}, // earlier versions accepted it
				},
				Records: []journal.Record{{Key: "app/x", Value: []byte("1"), Version: at(3), Updated: time.Now()}},
				Done:    true,
			}
		}
		for what, change := range bad {
			c := good()
			change(&c)
			if err := b.Load(t.Context(), "project:c", c); !errors.Is(err, journal.ErrInvalid) {
				t.Errorf("%s: got %v, want ErrInvalid", what, err)
				s.store.Purge(t.Context(), "project:c", journal.Purge{All: true})
			}
		}
		if err := b.Load(t.Context(), "project:c", good()); err != nil {
			t.Errorf("then a good one: %v", err)
		}
		page, err := s.store.Space("project:c").Read(t.Context(), journal.ReadQuery{})
		if err != nil || len(page.Events) != 2 {
			t.Errorf("the journal: got %d events, %v; want both", len(page.Events), err)
		}
	})
}
