package sqlitestore

import "context"

// A purge that erases first deletes rows and then removes their traces from the file.
// A crash in between must not lose the second step. The transaction that deletes
// therefore inserts a row into table space that says that erasing is pending. The row
// is staged, so reads do not see it, and has a name that no space can have. It is
// deleted when the traces are removed.
const owing = "erase " // before the name of the purged space

// owe notes that erasing the traces of a purge of a space is pending.
func (w *writer) owe(space string) error {
	return w.prepare(`INSERT OR IGNORE INTO space (name, staged, oldest, last, epochs) VALUES (?, 1, '', '', '[]')`).text(owing + space).exec()
}

// owed reports whether any erasing is pending, and whether one of this space is.
func (w *writer) owed(space string) (some, this bool, err error) {
	s := w.prepare(`SELECT count(*), ifnull(sum(name = ?), 0) FROM space WHERE name >= 'erase ' AND name < 'erase!' AND staged = 1`)
	if s.text(owing + space).next() {
		some, this = s.ColumnInt64(0) > 0, s.ColumnInt64(1) > 0
	}
	return some, this, s.done()
}

// settle notes that no erasing is pending any more.
func (w *writer) settle() error {
	return w.prepare(`DELETE FROM space WHERE name >= 'erase ' AND name < 'erase!' AND staged = 1`).exec()
}

// scrubOwed finishes the erasing of a purge before the store was opened. It waits for
// other processes only for restartPatience; if it fails, the next Purge or Open tries
// again.
func (s *Store) scrubOwed(ctx context.Context) {
	w := s.writer
	if some, _, err := w.owed(""); err != nil || !some {
		return
	}
	w.BusyTimeout(restartPatience)
	defer w.BusyTimeout(busyTimeout)
	w.Exec(`PRAGMA secure_delete = ON`)
	defer w.Exec(`PRAGMA secure_delete = OFF`)
	s.scrub(ctx)
}
