package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/thole-dev/thole/internal/pgtest"
)

// pg is the PostgreSQL server of all measurements, started by the first.
// Its settings are PostgreSQL's defaults: fsync and synchronous_commit are on.
var pg = sync.OnceValues(pgtest.Launch)

// database makes an empty database and returns its DSN, and what drops it.
func database(ctx context.Context) (dsn string, drop func(), err error) {
	s, err := pg()
	if err != nil {
		return "", nil, err
	}
	dsn, err = s.Create(ctx)
	return dsn, func() { s.Drop(context.Background(), dsn) }, err
}

// byHand is a database with the tables that one would make by hand.
func byHand(ctx context.Context, connections, threads int) (*pgxpool.Pool, func(), error) {
	dsn, drop, err := database(ctx)
	if err != nil {
		return nil, nil, err
	}
	pool, err := pgxpool.New(ctx, fmt.Sprintf("%s?pool_max_conns=%d", dsn, connections))
	if err == nil {
		_, err = pool.Exec(ctx, `
			CREATE TABLE head (thread int PRIMARY KEY, version bigint NOT NULL, value text NOT NULL);
			CREATE TABLE event (thread int, version bigint, data text NOT NULL, PRIMARY KEY (thread, version));`)
	}
	if err == nil {
		_, err = pool.Exec(ctx, `INSERT INTO head SELECT i, 0, '{}' FROM generate_series(0, $1 - 1) i`, threads)
	}
	if err != nil {
		if pool != nil {
			pool.Close()
		}
		drop()
		return nil, nil, err
	}
	return pool, func() { pool.Close(); drop() }, nil
}

// plainPostgres is a transaction per append that checks and updates a head and
// inserts an event, on a connection for each writer.
func plainPostgres(n, threads int) func(context.Context, string, time.Duration) (sample, error) {
	return func(ctx context.Context, _ string, d time.Duration) (sample, error) {
		pool, done, err := byHand(ctx, n, threads)
		if err != nil {
			return sample{}, err
		}
		defer done()
		data, head := strings.Repeat("x", recordSize), strings.Repeat("h", 200)
		return load(ctx, n, d, func(w, i int) error {
			thread := (w*7919 + i) % threads
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				var version int64
				err := tx.QueryRow(ctx, `UPDATE head SET version = version + 1, value = $2 WHERE thread = $1 RETURNING version`, thread, head).Scan(&version)
				if err != nil {
					return err
				}
				_, err = tx.Exec(ctx, `INSERT INTO event (thread, version, data) VALUES ($1, $2, $3)`, thread, version, data)
				return err
			})
		})
	}
}

// groupPostgres is what an expert would write by hand for this one table: a
// writer that takes what is queued, no thread twice, and appends it with one
// statement.
func groupPostgres(n, threads int) func(context.Context, string, time.Duration) (sample, error) {
	return func(ctx context.Context, _ string, d time.Duration) (sample, error) {
		pool, done, err := byHand(ctx, 1, threads)
		if err != nil {
			return sample{}, err
		}
		defer done()
		g := &groupWriter{pool: pool, wake: make(chan struct{}, 1), ended: make(chan struct{})}
		go g.run(ctx)
		data, head := strings.Repeat("x", recordSize), strings.Repeat("h", 200)
		s, err := load(ctx, n, d, func(w, i int) error {
			return g.append(&groupAppend{thread: (w*7919 + i) % threads, data: data, head: head, done: make(chan error, 1)})
		})
		close(g.wake)
		<-g.ended
		return s, err
	}
}

type groupAppend struct {
	thread     int
	data, head string
	done       chan error
}

type groupWriter struct {
	pool  *pgxpool.Pool
	mu    sync.Mutex
	queue []*groupAppend
	wake  chan struct{}
	ended chan struct{}
}

func (g *groupWriter) append(a *groupAppend) error {
	g.mu.Lock()
	g.queue = append(g.queue, a)
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
	return <-a.done
}

func (g *groupWriter) run(ctx context.Context) {
	defer close(g.ended)
	for range g.wake {
		for batch := g.take(); len(batch) > 0; batch = g.take() {
			err := g.write(ctx, batch)
			for _, a := range batch {
				a.done <- err
			}
		}
	}
}

// take takes what is queued, but no thread twice.
func (g *groupWriter) take() (batch []*groupAppend) {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken := make(map[int]bool)
	var rest []*groupAppend
	for _, a := range g.queue {
		if taken[a.thread] {
			rest = append(rest, a)
			continue
		}
		taken[a.thread] = true
		batch = append(batch, a)
	}
	g.queue = rest
	return batch
}

func (g *groupWriter) write(ctx context.Context, batch []*groupAppend) error {
	threads, data, heads := make([]int, len(batch)), make([]string, len(batch)), make([]string, len(batch))
	for i, a := range batch {
		threads[i], data[i], heads[i] = a.thread, a.data, a.head
	}
	tag, err := g.pool.Exec(ctx, `
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
