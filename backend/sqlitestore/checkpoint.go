package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// Every commit appends the pages that it changed to the write-ahead log; a
// checkpoint copies them to their places in the file, and the log begins anew.
// A long log means fewer copies, a short one less disk: it may grow to a quarter
// of the file, within these bounds.
const (
	minLogBytes = 1 << 20
	maxLogBytes = 32 << 20
)

// restartPatience is how long a commit waits for readers that keep the log from
// beginning anew.
const restartPatience = 100 * time.Millisecond

// log is the state of the write-ahead log, in pages.
//
// A checkpoint runs on a connection of its own beside the next commits. What
// they add meanwhile is little and is copied between two commits, and then the
// log can begin anew.
type log struct {
	pages int // in the log
	limit int // from here on it is checkpointed
	next  int // when to try the next time

	copier  *conn      // opened for the first checkpoint
	running chan error // of the checkpoint that runs; nil: none does
}

// watchLog makes SQLite tell the length of the log after each commit.
func (w *writer) watchLog() {
	w.WALHook(func(_ *sqlite3.Conn, _ string, pages int) error {
		if pages < w.log.pages { // it began anew
			w.log.next = w.log.limit
		}
		w.log.pages = pages
		return nil
	})
	w.measureLog()
}

// measureLog derives the limit from the size of the file. An error will show
// up in the next commit.
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
	// A log that grew far beyond its limit is cut when it begins anew. Else its
	// file is written over, which syncs faster than a file that grows.
	w.Exec(fmt.Sprintf(`PRAGMA journal_size_limit = %d`, int64(w.log.limit)*size*3/2))
}

// boundLog checkpoints a log that is too long. It does so after a commit, whose
// success it cannot change: errors show up again in a later commit.
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

// restartLog lets the next commit begin the log anew although readers were always
// in the way: those that are running finish while the next ones of this process
// wait. It gives up on a reader that takes too long.
func (w *writer) restartLog() {
	release := w.readers.hold()
	defer release()
	w.BusyTimeout(restartPatience)
	w.copyLog(sqlite3.CHECKPOINT_RESTART)
	w.BusyTimeout(busyTimeout)
}

// copyLog copies what is left of the log into the file.
func (w *writer) copyLog(mode sqlite3.CheckpointMode) {
	w.WALCheckpoint("main", mode)
	w.measureLog()
	// The next commit begins the log anew unless a reader needs it. Then the
	// next try comes when half as much has been added again.
	w.log.next = w.log.pages + w.log.limit/2
}

// startCopy begins a checkpoint beside the commits; settleLog ends it.
func (w *writer) startCopy() {
	if w.log.copier == nil {
		c, err := dial(context.Background(), w.file.path, w.file.vfs, sqlite3.OPEN_READWRITE)
		if err == nil {
			if err = c.tune(0); err != nil {
				c.close()
			}
		}
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

// settleLog waits for a checkpoint that runs.
func (w *writer) settleLog() {
	if w.log.running != nil {
		<-w.log.running
		w.log.running = nil
	}
}

// truncateLog empties the log. It waits for readers.
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

// closeLog empties the log if nobody else uses the file.
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
