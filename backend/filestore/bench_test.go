package filestore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

const benchThreads = 1000

// BenchmarkAppends appends events of 512 bytes to 1,000 streams of one space
// through the library, each with a check of the stream and the rewritten record
// of its head, as an append to a thread does.
func BenchmarkAppends(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			s, err := thole.Open(b.Context(), open(b, filepath.Join(b.TempDir(), "store"), nil), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			sp := s.Space("project:bench")
			threads := make([]benchThread, benchThreads)
			spread(b, 64, len(threads), func(i int) error { return threads[i].append(sp, i) })
			b.ResetTimer()
			spread(b, writers, b.N, func(i int) error {
				n := i * 7919 % benchThreads
				return threads[n].append(sp, n)
			})
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
		})
	}
}

// benchThread is a stream that is appended to.
type benchThread struct {
	mu   sync.Mutex
	last journal.Position
}

func (t *benchThread) append(sp *thole.Space, n int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	stream := fmt.Sprintf("thread/thrd_%032x", n)
	r, err := sp.Commit(context.Background(), journal.Commit{
		Checks: []journal.Check{{Stream: stream, At: t.last}},
		Events: []journal.Event{{Stream: stream, Type: "message.added", Data: []byte(`{"content":"` + strings.Repeat("x", 512) + `"}`)}},
		Writes: []journal.Write{{Key: stream, Value: []byte(`{"title":"A conversation","status":"idle","turns":123456,"updated":"2026-01-02T03:04:05Z","window":50}`)}},
	})
	t.last = r.Last
	return err
}

// spread does n things from that many goroutines.
func spread(b *testing.B, goroutines, n int, do func(i int) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkGroupedAppend measures the limit: that many goroutines append 512 bytes to a
// growing file through one writer, which syncs once for all that wait.
func BenchmarkGroupedAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			f := createFile(b, filepath.Join(b.TempDir(), "raw"))
			queue := make(chan chan error, writers)
			go func() {
				var waiting []chan error
				for first := range queue {
					waiting = append(waiting[:0], first)
					for len(queue) > 0 {
						waiting = append(waiting, <-queue)
					}
					_, err := f.Write(make([]byte, 512*len(waiting)))
					if err == nil {
						err = f.Sync()
					}
					for _, done := range waiting {
						done <- err
					}
				}
			}()
			b.ResetTimer()
			spread(b, writers, b.N, func(int) error {
				done := make(chan error, 1)
				queue <- done
				return <-done
			})
			close(queue)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
		})
	}
}

func createFile(b *testing.B, path string) *os.File {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return f
}
