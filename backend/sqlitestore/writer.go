package sqlitestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/thole-dev/thole/journal"
)

// writer is the connection that writes, with caches of what is in the file. The
// Store's writing token guards it.
type writer struct {
	*conn
	file    *file
	readers *pool // held when they prevent the log from restarting

	// Caches of the file as of data version seen. They also hold negative
	// answers, so a batch with warm caches reads nothing.
	spaces  map[string]*space
	streams map[inSpace]stream
	records map[inSpace]version
	seen    int64
	foreign atomic.Uint64 // how often writes of other connections were noticed

	dirty []*space // heads that the transaction must write back
	log   log
}

// maxCached is above how many entries the caches are emptied. That happens only between
// transactions, because a transaction relies on what it cached.
const maxCached = 1 << 18

// inSpace names a stream or a record.
type inSpace struct {
	space int64
	name  string
}

// space is a row of table space; id 0 means that there is none yet.
type space struct {
	id    int64
	head  journal.Head
	dirty bool
}

// stream is a row of table stream, with the seq of its last event; id 0 means that
// there is none.
type stream struct {
	id   int64
	last uint64
}

// version is the part of a record that checks need, and its row; seq 0 means that
// there is no record.
type version struct {
	id      int64
	seq     uint64
	expires time.Time
	notify  bool
}

func newWriter(db *conn, f *file, readers *pool) *writer {
	w := &writer{conn: db, file: f, readers: readers}
	w.forget()
	w.watchLog()
	return w
}

// transact calls f in a transaction that holds the write lock from the start, so that
// its reads see the newest state and nobody else writes before it ends. On an error it
// rolls back and clears the caches.
func (w *writer) transact(ctx context.Context, f func() error) (err error) {
	w.SetInterrupt(ctx)
	defer w.SetInterrupt(context.Background())
	if err := w.prepare(`BEGIN IMMEDIATE`).exec(); err != nil {
		return err
	}
	finished := false
	defer func() {
		if !finished {
			w.SetInterrupt(context.Background())
			w.forget()
			if !w.GetAutocommit() { // some errors roll back by themselves
				w.prepare(`ROLLBACK`).exec()
			}
			w.rolledBack()
		}
	}()
	if err := w.refresh(); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	if err := w.writeHeads(); err != nil {
		return err
	}
	if err := w.prepare(`COMMIT`).exec(); err != nil {
		return err
	}
	finished = true
	return nil
}

// refresh clears the caches if another connection wrote since the last call, or if they
// are full.
func (w *writer) refresh() error {
	now, err := w.integer(`PRAGMA data_version`)
	if err != nil {
		return err
	}
	if now != w.seen {
		w.forget()
		w.seen = now
		w.foreign.Add(1)
	} else if len(w.spaces)+len(w.streams)+len(w.records) > maxCached {
		w.forget()
	}
	return nil
}

func (w *writer) forget() {
	w.spaces, w.streams, w.records = map[string]*space{}, map[inSpace]stream{}, map[inSpace]version{}
	w.dirty = w.dirty[:0]
}

func (w *writer) close() error {
	err := w.closeLog()
	if e := w.conn.close(); err == nil {
		err = e
	}
	return err
}

// space returns the row of a space from the cache or the file.
func (w *writer) space(name string) (*space, error) {
	if sp, ok := w.spaces[name]; ok {
		return sp, nil
	}
	s, id, head, err := w.head(name, false)
	if e := s.done(); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	sp := &space{id: id, head: head}
	w.spaces[name] = sp
	return sp, nil
}

func (w *writer) stream(sp *space, name string) (stream, error) {
	if sp.id == 0 {
		return stream{}, nil
	}
	key := inSpace{sp.id, name}
	if st, ok := w.streams[key]; ok {
		return st, nil
	}
	var st stream
	s := w.prepare(`SELECT id, (SELECT max(id) FROM event WHERE stream = stream.id) FROM stream WHERE space = ? AND name = ?`)
	if s.int(sp.id).text(name).next() {
		st = stream{id: s.ColumnInt64(0), last: seqOf(s.ColumnInt64(1))}
	}
	if err := s.done(); err != nil {
		return st, err
	}
	w.streams[key] = st
	return st, nil
}

func (w *writer) record(sp *space, key string) (version, error) {
	if sp.id == 0 {
		return version{}, nil
	}
	at := inSpace{sp.id, key}
	if v, ok := w.records[at]; ok {
		return v, nil
	}
	var v version
	s := w.prepare(`SELECT id, version, expires, notify FROM record WHERE space = ? AND key = ?`)
	if s.int(sp.id).text(key).next() {
		v = version{id: s.ColumnInt64(0), seq: uint64(s.ColumnInt64(1)), expires: s.colTime(2), notify: s.ColumnBool(3)}
	}
	if err := s.done(); err != nil {
		return v, err
	}
	w.records[at] = v
	return v, nil
}

// touch inserts the row of sp if it is new, and marks its head to be written at the end
// of the transaction.
func (w *writer) touch(sp *space) error {
	if !sp.dirty {
		sp.dirty = true
		w.dirty = append(w.dirty, sp)
	}
	if sp.id != 0 {
		return nil
	}
	s := w.prepare(`INSERT INTO space (name, oldest, last, epochs) VALUES (?, '', '', '[]')`).text(sp.head.Space)
	return w.created(sp, s.exec())
}

// created gives sp the id of the row that was just inserted, or returns err. If the
// file has no room for more spaces, it returns ErrFull.
func (w *writer) created(sp *space, err error) error {
	if err != nil {
		return err
	}
	if sp.id = w.LastInsertRowID(); sp.id > maxSpace {
		return fmt.Errorf("%w: sqlite store %s has room for %d spaces and no more; keep the next ones in another file",
			journal.ErrFull, w.file.path, maxSpace)
	}
	return nil
}

// writeHeads writes every changed head once.
func (w *writer) writeHeads() error {
	for _, sp := range w.dirty {
		sp.dirty = false
		epochs, err := json.Marshal(sp.head.Epochs)
		if err != nil {
			return err
		}
		s := w.prepare(`UPDATE space SET oldest = ?, last = ?, epochs = ? WHERE id = ?`)
		s.text(sp.head.Oldest.String()).text(sp.head.Last.String()).json(epochs).int(sp.id)
		if err := s.exec(); err != nil {
			return err
		}
	}
	w.dirty = w.dirty[:0]
	return nil
}

// isBusy reports whether another connection holds a lock that is needed.
func isBusy(err error) bool { return errors.Is(err, sqlite3.BUSY) }
