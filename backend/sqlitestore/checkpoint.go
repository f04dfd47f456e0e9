package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// Every commit appends the pages that it changed to the write-ahead log; a
// checkpoint copies them into the file, and the log restarts from its beginning. A
// long log means fewer copies, a short one less disk: it may grow to a quarter of the
// file, within these bounds.
const (
	minLogBytes = 1 << 20
	maxLogBytes = 32 << 20
)

// restartPatience is how long a commit waits for readers that prevent the log from
// restarting.
const restartPatience = 100 * time.Millisecond

// log is the state of the write-ahead log, in pages.
//
// A checkpoint runs on its own connection, in parallel with the next commits. The few
// pages that these add are then copied between two commits, after which the log can
// restart.
type log struct {
	pages int // in the log
	limit int // the length from which it is checkpointed
	next  int // the length at which to try next

	copier  *conn      // opened for the first checkpoint
	running chan error // receives the result of the running checkpoint; nil: none runs
}

// watchLog makes SQLite report the length of the log after each commit.
func (w *writer) watchLog() {
	w.WALHook(func(_ *sqlite3.Conn, _ string, pages int) error {
		if pages < w.log.pages { // it restarted
			w.log.next = w.log.limit
		}
		w.log.pages = pages
		return nil
	})
	w.measureLog()
}

// measureLog derives the limit from the size of the file. It ignores errors; the next
// commit returns them.
func (w *writer) measureLog() {
	pages, err := w.integer(`PRAGMA page_count`)
	if err != nil {
		return
	}
	size, err := w.integer(`PRAGMA page_size`)
	if err != nil || size == 0 {
		return
	}
	w.log.limit = int(min(max(pages*size/4, minLogBytes), maxLogBytes) / size)
	w.log.next = w.log.limit
	// A log that grew far beyond its limit is truncated when it restarts. Otherwise
	// its file is overwritten, which syncs faster than a growing file.
	w.Exec(fmt.Sprintf(`PRAGMA journal_size_limit = %d`, int64(w.log.limit)*size*3/2))
}

// boundLog checkpoints a log that is too long. It runs after a commit, whose result it
// cannot change, so it ignores errors; a later commit returns them.
func (w *writer) boundLog() {
	switch {
	case w.log.running != nil:
		if w.log.pages < w.log.limit*5/4 && len(w.log.running) == 0 {
			return // let it run
		}
		w.settleLog()
		w.copyLog(sqlite3.CHECKPOINT_PASSIVE)
	case w.log.pages < w.log.next:
	case w.log.pages >= 2*w.log.limit:
		w.restartLog()
	default:
		w.startCopy()
	}
}

// restartLog lets the next commit restart the log although there were always readers:
// it delays new readers of this process until the running ones finish. It gives up
// after restartPatience.
func (w *writer) restartLog() {
	release := w.readers.hold()
	defer release()
	w.BusyTimeout(restartPatience)
	w.copyLog(sqlite3.CHECKPOINT_RESTART)
	w.BusyTimeout(busyTimeout)
}

// copyLog copies the rest of the log into the file.
func (w *writer) copyLog(mode sqlite3.CheckpointMode) {
	w.WALCheckpoint("main", mode)
	w.measureLog()
	// The next commit restarts the log unless a reader needs it. In that case the
	// next try comes after another half of the limit.
	w.log.next = w.log.pages + w.log.limit/2
}

// startCopy starts a checkpoint in parallel with commits; settleLog waits for it.
func (w *writer) startCopy() {
	if w.log.copier == nil {
		c, err := dial(context.Background(), w.file.real, w.file.vfs, sqlite3.OPEN_READWRITE, 0)
		if err != nil {
			w.copyLog(sqlite3.CHECKPOINT_PASSIVE)
			return
		}
		w.log.copier = c
	}
	w.log.running = make(chan error, 1)
	go func(c *conn, done chan<- error) {
		_, _, err := c.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
		done <- err
	}(w.log.copier, w.log.running)
}

// settleLog waits for the running checkpoint, if any.
func (w *writer) settleLog() {
	if w.log.running != nil {
		<-w.log.running
		w.log.running = nil
	}
}

// truncateLog copies the log into the file and empties it. It waits for readers.
func (w *writer) truncateLog(ctx context.Context) error {
	w.settleLog()
	w.SetInterrupt(ctx)
	defer w.SetInterrupt(context.Background())
	_, _, err := w.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE)
	if err == nil {
		w.log.pages = 0
	}
	return err
}

// closeLog closes the checkpoint connection, and empties the log if nobody else uses
// the file.
func (w *writer) closeLog() error {
	w.settleLog()
	first := w.log.copier.close()
	w.BusyTimeout(0)
	_, _, err := w.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE)
	if isBusy(err) || err == nil {
		return first
	}
	return err
}
