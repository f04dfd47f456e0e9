package sqlitestore

import "context"

// A purge that erases removes rows first and their traces in the file after that. In
// between it owes the erasing, which a crash must not forget. The transaction that
// removes leaves a row in table space for it, which is staged, so nothing shows it, and
// whose name no space can have. It goes when the traces are gone.
const owing = "erase " // before the name of the space that was purged

// owe notes that the traces of what was purged from a space are to be erased.
func (w *writer) owe(space string) error {
	return w.prepare(`INSERT OR IGNORE INTO space (name, staged, oldest, last, epochs) VALUES (?, 1, '', '', '[]')`).text(owing + space).exec()
}

// owed reports whether any erasing is owed, and whether that of this space is.
func (w *writer) owed(space string) (some, this bool, err error) {
	s := w.prepare(`SELECT count(*), ifnull(sum(name = ?), 0) FROM space WHERE name >= 'erase ' AND name < 'erase!' AND staged = 1`)
	if s.text(owing + space).next() {
		some, this = s.ColumnInt64(0) > 0, s.ColumnInt64(1) > 0
	}
	return some, this, s.done()
}

// settle notes that nothing is owed any more.
func (w *writer) settle() error {
	return w.prepare(`DELETE FROM space WHERE name >= 'erase ' AND name < 'erase!' AND staged = 1`).exec()
}

// scrubOwed erases what a purge before the store was opened owes. It waits for nobody:
// if it fails, the next Purge or Open does it.
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
