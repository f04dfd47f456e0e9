package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// What Thole stores for an append of recordSize bytes, besides ids and names.
const (
	eventBytes = recordSize + 212 // the event's data
	headBytes  = 380              // the thread's head record
)

// groupSQLite is the best that we can write by hand for this one workload over the
// same driver: one writer that puts what is queued into one transaction, with
// prepared statements, versions kept in memory and a large log. Its rows are those
// that Thole writes: an event in a table with an index of streams, the thread's
// head, which is found by its rowid, and the space's head once per transaction.
func groupSQLite(n, threads int) func(context.Context, string, time.Duration) (sample, error) {
	return func(ctx context.Context, dir string, d time.Duration) (_ sample, err error) {
		g, err := newSQLiteGroup(filepath.Join(dir, "group.db"), threads)
		if err != nil {
			return sample{}, err
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			g.run()
		}()
		defer func() {
			close(g.wake)
			<-ended
			err = errors.Join(err, g.close())
		}()
		data, head := strings.Repeat("x", eventBytes), strings.Repeat("h", headBytes)
		return load(ctx, n, d, func(w, i int) error {
			return g.append(&sqliteAppend{thread: (w*7919 + i) % threads, data: data, head: head, done: make(chan error, 1)})
		})
	}
}

type sqliteAppend struct {
	thread     int
	data, head string
	done       chan error
}

type sqliteGroup struct {
	conn                      *sqlite3.Conn
	insert, update, spaceHead *sqlite3.Stmt
	seq                       int64
	versions                  []int64 // of the threads' heads

	mu    sync.Mutex
	queue []*sqliteAppend
	wake  chan struct{}
}

func newSQLiteGroup(path string, threads int) (*sqliteGroup, error) {
	c, err := sqlite3.Open("file:" + path)
	if err != nil {
		return nil, err
	}
	g := &sqliteGroup{conn: c, versions: make([]int64, threads), wake: make(chan struct{}, 1)}
	err = c.Exec(plainPragmas + `PRAGMA wal_autocheckpoint=8000; PRAGMA cache_size=-65536;
		CREATE TABLE space (id INTEGER PRIMARY KEY, last INTEGER NOT NULL) STRICT;
		CREATE TABLE event (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, type TEXT NOT NULL, time INTEGER NOT NULL,
			actor TEXT, data TEXT) STRICT;
		CREATE INDEX event_stream ON event (stream);
		CREATE TABLE record (id INTEGER PRIMARY KEY, version INTEGER NOT NULL, updated INTEGER NOT NULL, value TEXT NOT NULL) STRICT;
		INSERT INTO space VALUES (1, 0);`)
	for i := 0; i < threads && err == nil; i++ {
		err = c.Exec(fmt.Sprintf(`INSERT INTO record VALUES (%d, 0, 0, '{}')`, i+1))
	}
	for stmt, sql := range map[**sqlite3.Stmt]string{
		&g.insert:    `INSERT INTO event (id, stream, type, time, actor, data) VALUES (?, ?, 'message.added', ?, 'system', ?)`,
		&g.update:    `UPDATE record SET version = ?, updated = ?, value = ? WHERE id = ?`,
		&g.spaceHead: `UPDATE space SET last = ? WHERE id = 1`,
	} {
		if err == nil {
			*stmt, _, err = c.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
		}
	}
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

func (g *sqliteGroup) close() error {
	return errors.Join(g.insert.Close(), g.update.Close(), g.spaceHead.Close(), g.conn.Close()) // a nil statement closes, too
}

func (g *sqliteGroup) append(a *sqliteAppend) error {
	g.mu.Lock()
	g.queue = append(g.queue, a)
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
	return <-a.done
}

func (g *sqliteGroup) run() {
	var batch []*sqliteAppend
	for range g.wake {
		for {
			g.mu.Lock()
			batch, g.queue = g.queue, batch[:0]
			g.mu.Unlock()
			if len(batch) == 0 {
				break
			}
			err := g.write(batch)
			for _, a := range batch {
				a.done <- err
			}
		}
	}
}

func (g *sqliteGroup) write(batch []*sqliteAppend) (err error) {
	tx, err := g.conn.BeginImmediate()
	if err != nil {
		return err
	}
	defer tx.End(&err)
	now := time.Now().UnixMicro()
	for _, a := range batch {
		g.seq++
		expected := g.versions[a.thread] // the check, which nobody else can make fail
		err := errors.Join(
			g.insert.BindInt64(1, g.seq), g.insert.BindInt64(2, int64(a.thread)), g.insert.BindInt64(3, now), g.insert.BindText(4, a.data),
			g.update.BindInt64(1, max(expected, g.seq)), g.update.BindInt64(2, now), g.update.BindText(3, a.head), g.update.BindInt64(4, int64(a.thread+1)))
		if err == nil {
			err = g.insert.Exec()
		}
		if err == nil {
			err = g.update.Exec()
		}
		if err != nil {
			return err
		}
		g.versions[a.thread] = g.seq
	}
	if err := g.spaceHead.BindInt64(1, g.seq); err != nil {
		return err
	}
	return g.spaceHead.Exec()
}
