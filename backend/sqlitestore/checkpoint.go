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

// restartPatience is how long a commit waits for readers of other processes
// that keep the log from beginning anew.
const restartPatience = 100 * time.Millisecond

// log is the state of the write-ahead log, in pages.
type log struct {
	pages int // in the log
	limit int // from here on it is checkpointed
	next  int // when to try the next time
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
// success it cannot change: errors but those of a failed sync show up again in
// a later commit.
func (w *writer) boundLog() {
	if w.log.pages < w.log.next {
		return
	}
	mode := sqlite3.CHECKPOINT_PASSIVE
	if w.log.pages >= 2*w.log.limit {
		// Readers were always in the way. Let those that are running finish
		// while the next ones wait.
		mode = sqlite3.CHECKPOINT_RESTART
		w.BusyTimeout(restartPatience)
		defer w.BusyTimeout(busyTimeout)
	}
	_, _, err := w.WALCheckpoint("main", mode)
	w.fail(err)
	w.measureLog()
	// The next commit begins the log anew unless a reader needs it. Then the
	// next try comes when half as much has been added again.
	w.log.next = w.log.pages + w.log.limit/2
}

// truncateLog empties the log. It waits for readers.
func (w *writer) truncateLog(ctx context.Context) error {
	w.SetInterrupt(ctx)
	defer w.SetInterrupt(context.Background())
	_, _, err := w.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE)
	if err == nil {
		w.log.pages = 0
	}
	return w.fail(err)
}

// closeLog empties the log if nobody else uses the file.
func (w *writer) closeLog() error {
	if w.failed != nil {
		return nil // it was reported
	}
	w.BusyTimeout(0)
	_, _, err := w.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE)
	if isBusy(err) {
		return nil
	}
	return err
}
