package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/ncruces/go-sqlite3"
	"github.com/thole-dev/thole/internal/failstop"
	"github.com/thole-dev/thole/journal"
)

// explain translates an error of SQLite, by its code, into one that says what a
// person can do. It names the file and wraps the original.
func (f *file) explain(ctx context.Context, err error) error {
	if stopped := f.stop.Err(); err != nil && stopped != nil {
		return stopped
	}
	var code sqlite3.ExtendedErrorCode
	if err == nil || !errors.As(err, &code) {
		return err
	}
	say := func(what string) error { return fmt.Errorf("sqlite store %s %s: %w", f.path, what, err) }
	if full(err) {
		return fmt.Errorf("%w: %w", journal.ErrFull, say("cannot grow: the disk is full; free some space and try again, nothing was lost"))
	}
	switch code.Code() {
	case sqlite3.INTERRUPT:
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return say("was interrupted")
	case sqlite3.NOTADB:
		return fmt.Errorf("%w: %w", journal.ErrCorrupt, say("is not a store: it is no SQLite database, or is encrypted; name another file"))
	case sqlite3.CORRUPT:
		return fmt.Errorf("%w: %w", journal.ErrCorrupt, say("is damaged; stop all programs that use it and restore a backup"))
	case sqlite3.BUSY, sqlite3.LOCKED, sqlite3.PROTOCOL:
		return say(fmt.Sprintf("is locked by another process for more than %v; end the program that holds it (a shell with an open transaction?) and try again", busyTimeout))
	case sqlite3.READONLY, sqlite3.PERM:
		return say("is read-only; give this user the right to write the file and its directory")
	case sqlite3.CANTOPEN:
		if errors.Is(err, fs.ErrPermission) {
			return say("cannot be opened; give this user the right to write the file and its directory")
		}
		return say("cannot be opened; does its directory exist, and can this user write to it?")
	case sqlite3.IOERR:
		return say("could not be read or written; check the disk")
	}
	return say("failed")
}

// full reports whether err means that the disk is full.
func full(err error) bool {
	return errors.Is(err, sqlite3.FULL) || failstop.Full(err)
}
