package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// plainPragmas are those of the hand-written baseline: durable, and otherwise
// as tutorials have it.
const plainPragmas = `PRAGMA busy_timeout=10000; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;`

// plainSQLite is what one would write by hand: a transaction per append that
// checks the head's version, inserts an event and updates the head, on one
// connection.
func plainSQLite(n, threads int) func(context.Context, string, time.Duration) (sample, error) {
	return func(ctx context.Context, dir string, d time.Duration) (sample, error) {
		c, err := sqlite3.Open("file:" + filepath.Join(dir, "plain.db"))
		if err != nil {
			return sample{}, err
		}
		defer c.Close()
		err = c.Exec(plainPragmas + `
			CREATE TABLE head (thread INTEGER PRIMARY KEY, version INTEGER, value TEXT);
			CREATE TABLE event (id INTEGER PRIMARY KEY, thread INTEGER, version INTEGER, data TEXT, UNIQUE (thread, version));`)
		if err != nil {
			return sample{}, err
		}
		for i := range threads {
			if err := c.Exec(fmt.Sprintf(`INSERT INTO head VALUES (%d, 0, '{}')`, i)); err != nil {
				return sample{}, err
			}
		}
		get, _, err := c.Prepare(`SELECT version FROM head WHERE thread = ?`)
		if err != nil {
			return sample{}, err
		}
		defer get.Close()
		put, _, err := c.Prepare(`UPDATE head SET version = ?, value = ? WHERE thread = ?`)
		if err != nil {
			return sample{}, err
		}
		defer put.Close()
		insert, _, err := c.Prepare(`INSERT INTO event (thread, version, data) VALUES (?, ?, ?)`)
		if err != nil {
			return sample{}, err
		}
		defer insert.Close()
		data, head := strings.Repeat("x", recordSize), strings.Repeat("h", 200)
		var mu sync.Mutex
		return load(ctx, n, d, func(w, i int) error {
			mu.Lock()
			defer mu.Unlock()
			thread := int64((w*7919 + i) % threads)
			return appendPlain(c, get, put, insert, thread, data, head)
		})
	}
}

func appendPlain(c *sqlite3.Conn, get, put, insert *sqlite3.Stmt, thread int64, data, head string) (err error) {
	tx, err := c.BeginImmediate()
	if err != nil {
		return err
	}
	defer tx.End(&err)
	if err := get.BindInt64(1, thread); err != nil {
		return err
	}
	if !get.Step() {
		return fmt.Errorf("no head: %w", get.Err())
	}
	version := get.ColumnInt64(0)
	if err := get.Reset(); err != nil {
		return err
	}
	insert.BindInt64(1, thread)
	insert.BindInt64(2, version+1)
	insert.BindText(3, data)
	if err := insert.Exec(); err != nil {
		return err
	}
	put.BindInt64(1, version+1)
	put.BindText(2, head)
	put.BindInt64(3, thread)
	return put.Exec()
}
