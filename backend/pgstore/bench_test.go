package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/journal"
)

// BenchmarkAppend64 measures 64 writers, each of which appends events of 512 bytes to
// its own threads, of 1,024 in all, and waits for each append: an event and the
// thread's head, checked. Beside the Store it measures code that one would write by
// hand: a transaction per append, and one statement for all queued appends. Compare
// within one run.
func BenchmarkAppend64(b *testing.B) {
	b.Run("transaction", benchTransaction)
	b.Run("group", benchGroup)
	b.Run("store", func(b *testing.B) { benchStore(b, pgtest.Own(b).Database(b)) })
	b.Run("store-pooled", func(b *testing.B) {
		s := pgtest.Own(b)
		dsn := s.Database(b)
		benchStore(b, with(b, s.Pooled(b, dsn), "direct", dsn))
	})
}

const (
	benchWriters = 64
	benchThreads = 1024
)

var (
	benchData = `"` + strings.Repeat("x", 510) + `"`
	benchHead = `"` + strings.Repeat("h", 198) + `"`
)

// byWriters calls op b.N times in all from 64 goroutines.
func byWriters(b *testing.B, op func(thread int) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for w := range benchWriters {
		wg.Go(func() {
			for i := 0; next.Add(1) <= int64(b.N); i++ {
				if err := op(w + i*benchWriters%benchThreads); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

func benchStore(b *testing.B, dsn string) {
	s, err := thole.Open(context.Background(), open(b, dsn), &thole.Options{Sweep: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	sp := s.Space("project:bench")
	var last [benchThreads]journal.Position // of each thread; each has one writer
	byWriters(b, func(n int) error {
		thread := fmt.Sprintf("thread/thrd_%032x", n)
		r, err := sp.Commit(context.Background(), journal.Commit{
			Checks: []journal.Check{{Stream: thread, At: last[n]}},
			Events: []journal.Event{{Stream: thread, Type: "message.added", Data: []byte(benchData)}},
			Writes: []journal.Write{{Key: thread, Value: []byte(benchHead)}},
		})
		last[n] = r.Last
		return err
	})
}

// byHand creates the tables for the code written by hand.
func byHand(b *testing.B) *pgxpool.Pool {
	pool, err := pgxpool.New(context.Background(), with(b, pgtest.Own(b).Database(b), "pool_max_conns", fmt.Sprint(benchWriters)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	_, err = pool.Exec(context.Background(), `
		CREATE TABLE head (thread int PRIMARY KEY, version bigint NOT NULL, value text NOT NULL);
		CREATE TABLE event (thread int, version bigint, data text NOT NULL, PRIMARY KEY (thread, version));
		INSERT INTO head SELECT i, 0, '{}' FROM generate_series(0, 1023) i`)
	if err != nil {
		b.Fatal(err)
	}
	return pool
}

func benchTransaction(b *testing.B) {
	pool := byHand(b)
	byWriters(b, func(thread int) error {
		return pgx.BeginFunc(context.Background(), pool, func(tx pgx.Tx) error {
			var version int64
			err := tx.QueryRow(context.Background(), `UPDATE head SET version = version + 1, value = $2 WHERE thread = $1 RETURNING version`, thread, benchHead).Scan(&version)
			if err == nil {
				_, err = tx.Exec(context.Background(), `INSERT INTO event (thread, version, data) VALUES ($1, $2, $3)`, thread, version, benchData)
			}
			return err
		})
	})
}

func benchGroup(b *testing.B) {
	pool := byHand(b)
	type pending struct {
		thread int
		done   chan error
	}
	queue := make(chan pending, benchWriters)
	write := func(batch []pending) error {
		var threads []int
		var data, heads []string
		for _, p := range batch {
			threads, data, heads = append(threads, p.thread), append(data, benchData), append(heads, benchHead)
		}
		tag, err := pool.Exec(context.Background(), `
			WITH new AS (SELECT * FROM unnest($1::int[], $2::text[], $3::text[]) AS n (thread, data, head)),
			moved AS (UPDATE head SET version = version + 1, value = new.head FROM new WHERE head.thread = new.thread
				RETURNING head.thread, head.version)
			INSERT INTO event (thread, version, data) SELECT thread, version, data FROM moved JOIN new USING (thread)`,
			threads, data, heads)
		if err == nil && tag.RowsAffected() != int64(len(batch)) {
			err = fmt.Errorf("%d of %d appended", tag.RowsAffected(), len(batch))
		}
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for first := range queue {
			batch := []pending{first}
			for more := true; more; {
				select {
				case p := <-queue:
					batch = append(batch, p)
				default:
					more = false
				}
			}
			err := write(batch)
			for _, p := range batch {
				p.done <- err
			}
		}
	})
	byWriters(b, func(thread int) error {
		p := pending{thread, make(chan error, 1)}
		queue <- p
		return <-p.done
	})
	close(queue)
	wg.Wait()
}
