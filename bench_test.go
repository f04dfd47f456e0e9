package thole_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// BenchmarkCommit measures a thread's append: an event and its head record, checked,
// over 1,000 threads. On memstore it measures the cost of the Store itself.
func BenchmarkCommit(b *testing.B) {
	text := strings.Repeat("x", 400)
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			sp := openOn(b, memstore.New(), &thole.Options{Sweep: -1}).Space("project:shop")
			b.ReportAllocs()
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range writers {
				wg.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						thread := fmt.Sprintf("thread/%d", i%1000)
						_, err := sp.Update(context.Background(), func(tx *thole.Tx) error {
							var c counter
							if _, err := tx.Load(thread, &c); err != nil {
								return err
							}
							c.N++
							tx.Put(thread, c, nil)
							tx.Emit(thread, "message.added", text)
							return nil
						})
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// BenchmarkCommitBelow measures a write below one of 1,000 records. The write does not
// extend the record's life (kind=other), or the record has no TTL, or a TTL that never
// has to be extended (ttl=far), or one that the first of many writes extends
// (ttl=near).
func BenchmarkCommitBelow(b *testing.B) {
	for _, test := range []struct {
		name       string
		lives      bool
		puts, asks time.Duration // the record's TTL when it is put, and after a write
	}{
		{"kind=other", false, 0, 0},
		{"ttl=none", true, 0, time.Hour},
		{"ttl=far", true, 1000 * time.Hour, time.Hour},
		{"ttl=near", true, time.Hour, time.Hour},
	} {
		for _, writers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", test.name, writers), func(b *testing.B) {
				opts := &thole.Options{Sweep: -1}
				if test.lives {
					opts.Concepts = []*thole.Concept{lasting(test.asks)}
				}
				s := openOn(b, memstore.New(), opts)
				sp := s.Space("project:shop")
				for i := range 1000 {
					w := thole.Write{Key: fmt.Sprintf("thing/%d", i), Value: []byte(`"a thing"`)}
					if test.puts > 0 {
						w.Expires = time.Now().Add(test.puts)
					}
					if _, err := sp.Commit(context.Background(), thole.Commit{Writes: []thole.Write{w}}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				var next atomic.Int64
				var wg sync.WaitGroup
				b.ResetTimer()
				for range writers {
					wg.Go(func() {
						for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
							key := fmt.Sprintf("thing/%d/x", i%1000)
							if _, err := sp.Commit(context.Background(), thole.Commit{Writes: []thole.Write{{Key: key, Value: []byte("1")}}}); err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// BenchmarkWatch delivers each of b.N events, committed by 16 writers, to 1,000
// watchers.
func BenchmarkWatch(b *testing.B) {
	const watchers, writers = 1000, 16
	sp := openOn(b, memstore.New(), &thole.Options{Sweep: -1}).Space("project:shop")
	b.ReportAllocs()
	var readers, wg sync.WaitGroup
	for range watchers {
		w, err := sp.Watch(context.Background(), nil)
		if err != nil {
			b.Fatal(err)
		}
		readers.Go(func() {
			defer w.Close()
			for n := 0; n < b.N; {
				ds, err := w.Next(context.Background())
				if err != nil {
					b.Error(err)
					return
				}
				n += len(ds)
			}
		})
	}
	var next atomic.Int64
	b.ResetTimer()
	for range writers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if _, err := sp.Commit(context.Background(), event(i)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	readers.Wait()
	b.ReportMetric(float64(b.N)*watchers/b.Elapsed().Seconds(), "deliveries/s")
}

type turn struct {
	ID, Role, Text string
}

// BenchmarkLoadLast50 loads the newest 50 turns, of 400 bytes each, of one of many
// threads that grow now and then, with a Projection and without.
func BenchmarkLoadLast50(b *testing.B) {
	apply := func(s []turn, e thole.Event) ([]turn, error) {
		var t turn
		err := e.As(&t)
		s = append(s[:len(s):len(s)], t)
		return s[max(0, len(s)-50):], err
	}
	kept := thole.Projection[[]turn]{Name: "bench.tail", Apply: apply, Size: func(s []turn) int { return 500 * len(s) }}
	for _, threads := range []int{1, 1000} {
		sp := openOn(b, memstore.New(), &thole.Options{Sweep: -1}).Space("project:shop")
		add := func(thread string) {
			_, err := sp.Update(context.Background(), func(tx *thole.Tx) error {
				tx.Put(thread, 1, nil)
				tx.Emit(thread, "message.added", turn{ID: thole.NewID("turn"), Role: "user", Text: strings.Repeat("x", 330)})
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		for i := range threads * 50 {
			add(fmt.Sprintf("thread/%d", i%threads))
		}
		load := func(thread string, projected bool) error {
			head, err := sp.Get(context.Background(), thread)
			if err != nil {
				return err
			}
			cold := func(ctx context.Context) ([]turn, error) {
				end := head.Version
				end.Seq++
				page, err := sp.Read(ctx, thole.ReadQuery{Stream: thread, Before: end, Backward: true, Limit: 50})
				out := make([]turn, len(page.Events))
				for i, e := range page.Events {
					if err := json.Unmarshal(e.Data, &out[len(out)-1-i]); err != nil {
						return nil, err
					}
				}
				return out, err
			}
			if projected {
				_, err = kept.At(context.Background(), sp, thread, head.Version, cold)
			} else {
				_, err = cold(context.Background())
			}
			return err
		}
		for _, projected := range []bool{false, true} {
			b.Run(fmt.Sprintf("threads=%d/kept=%v", threads, projected), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					thread := fmt.Sprintf("thread/%d", i%threads)
					if i%10 == 9 {
						add(thread)
					}
					if err := load(thread, projected); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "loads/s")
			})
		}
	}
}
