package thread_test

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/state/thread"
)

func store(b *testing.B) *thole.Store {
	b.Helper()
	back, err := sqlitestore.Open(b.Context(), filepath.Join(b.TempDir(), "store.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	s, err := thole.Open(b.Context(), back, &thole.Options{Concepts: []*thole.Concept{thread.Concept}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// BenchmarkAppend measures durable appends of 64 writers over 1,000 threads.
func BenchmarkAppend(b *testing.B) {
	ts := thread.In(store(b).Space("project:shop"))
	ids := make([]string, 1000)
	for i := range ids {
		th, err := ts.Create(b.Context(), nil)
		if err != nil {
			b.Fatal(err)
		}
		ids[i] = th.ID
	}
	m := thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock(strings.Repeat("word ", 60))}}
	var n atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := ts.Append(b.Context(), ids[n.Add(1)%int64(len(ids))], m, nil); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkLast50 measures loads of the newest window.
func BenchmarkLast50(b *testing.B) {
	ts := thread.In(store(b).Space("project:shop"))
	th, err := ts.Create(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 200 {
		m := thread.Message{Role: []string{thread.User, thread.Assistant}[i%2], Blocks: []thread.Block{thread.TextBlock(strings.Repeat("word ", 60))}}
		if _, err := ts.Append(b.Context(), th.ID, m, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p, err := ts.Messages(b.Context(), th.ID, nil)
			if err != nil || len(p.Items) != 50 {
				b.Fatalf("got %d (%v)", len(p.Items), err)
			}
		}
	})
}
