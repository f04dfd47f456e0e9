package sqlitestore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
)

// thread returns a commit like that of an append to a thread: a check of the stream, an
// event of about 450 bytes and the rewritten head record.
func thread(n int, at journal.Position) journal.Commit {
	stream := fmt.Sprintf("thread/thrd_%032x", n)
	data := `{"role":"user","content":"` + strings.Repeat("All work and no play. ", 19) + `"}`
	return journal.Commit{
		Space: "project:bench", Now: time.Now(), Actor: "user:42", Cause: "sess_0123456789abcdef0123456789abcdef",
		Checks: []journal.Check{{Stream: stream, At: at}},
		Events: []journal.Event{{Stream: stream, Type: "message.added", Data: []byte(data)}},
		Writes: []journal.Write{{Key: stream, Value: []byte(`{"title":"A conversation","status":"idle","turns":123456,"updated":"2026-01-02T03:04:05Z","window":50}`)}},
	}
}

const benchThreads = 1000

// fill appends rounds batches of 64 to random threads and returns how long
// each took.
func fill(b testing.TB, s *sqlitestore.Store, rounds int, last []journal.Position) []time.Duration {
	took := make([]time.Duration, 0, rounds)
	rnd := rand.New(rand.NewPCG(1, 2))
	batch := make([]journal.Commit, 64)
	for range rounds {
		chosen := rnd.Perm(len(last))[:len(batch)]
		for i, n := range chosen {
			batch[i] = thread(n, last[n])
		}
		start := time.Now()
		results, err := s.Commit(context.Background(), batch)
		took = append(took, time.Since(start))
		if err != nil {
			b.Fatal(err)
		}
		for i, n := range chosen {
			if results[i].Conflict != nil {
				b.Fatal(results[i].Conflict)
			}
			last[n] = results[i].Last
		}
	}
	return took
}

// BenchmarkCommitBatch64 measures a batch of 64 appends to 64 of 1,000 threads.
func BenchmarkCommitBatch64(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "thole.db"), nil)
	last := make([]journal.Position, benchThreads)
	fill(b, s, 100, last)
	b.ResetTimer()
	start := time.Now()
	took := fill(b, s, b.N, last)
	b.ReportMetric(float64(64*b.N)/time.Since(start).Seconds(), "commits/s")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
}

// BenchmarkSyncedAppend measures the limit: the bytes of 64 such events, appended to a
// preallocated file and synced.
func BenchmarkSyncedAppend(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	const size = 64 << 20
	if _, err := f.Write(make([]byte, size)); err != nil {
		b.Fatal(err)
	}
	f.Sync()
	block := make([]byte, 64*512)
	b.ResetTimer()
	start := time.Now()
	for i := range b.N {
		if _, err := f.WriteAt(block, int64(i*len(block)%size)); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(64*b.N)/time.Since(start).Seconds(), "commits/s")
}

// BenchmarkLast50 reads the newest 50 events of a random thread, from as many
// goroutines as there are processors.
func BenchmarkLast50(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "thole.db"), nil)
	fill(b, s, 1600, make([]journal.Position, benchThreads))
	b.ResetTimer()
	start := time.Now()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			stream := fmt.Sprintf("thread/thrd_%032x", rand.IntN(benchThreads))
			page, err := s.Read(context.Background(), "project:bench", journal.ReadQuery{Stream: stream, Backward: true, Limit: 50})
			if err != nil || len(page.Events) != 50 {
				b.Errorf("read: got %d events, %v; want 50", len(page.Events), err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "reads/s")
}
