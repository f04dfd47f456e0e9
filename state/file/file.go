// Package file records the changes of files that people and agents edit: who made which
// content from which, so that no edit overwrites another unnoticed and every watcher
// learns of it. The files themselves live elsewhere; their contents before and after an
// edit may be kept as blobs.
//
// The record file/<escaped path> holds the file's current hash. The events file.changed
// and file.conflict go to the stream file. A file.changed names the position of the
// file's previous change, so that reading one file's history skips the others.
package file

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"github.com/thole-dev/thole"
)

// The stream and the types of the package's events.
const (
	Stream       = "file"
	TypeChanged  = "file.changed"  // holds a [Change]
	TypeConflict = "file.conflict" // holds a [Conflict]
	TypeDone     = "file.done"     // holds a [Done]; in the stream of a thread
)

// Outside is the actor of a change that [Files.Found] detected: someone edited the file
// without recording it.
const Outside = "user:hand"

// Change is the data of file.changed. A hash is the SHA-256 of the content, in 64
// lower-case hex digits; "" means that the file does not exist.
type Change struct {
	Path     string         `json:"path"`
	Before   string         `json:"before_hash"`
	After    string         `json:"after_hash"`
	Actor    string         `json:"actor"`
	Kept     bool           `json:"kept,omitempty"` // both contents are blobs of the space
	Found    bool           `json:"found,omitempty"`
	Previous thole.Position `json:"previous"` // the file's version before; zero: it was unknown
}

// Conflict is the data of file.conflict: an edit of the content Base that did not fit the
// file's current content.
type Conflict struct {
	Path     string          `json:"path"`
	Base     string          `json:"base_hash"`
	Ours     string          `json:"ours_hash"`          // the content that the edit would have made
	Theirs   string          `json:"theirs_hash"`        // the current content
	Rejected json.RawMessage `json:"rejected,omitempty"` // the part that was not applied
	Actor    string          `json:"actor"`
}

// Done is the data of file.done: an agent has completed a set of changes to files.
type Done struct {
	Run   string   `json:"run"`
	Files []string `json:"files"` // changed so far, also by sub-agents
}

// File is the recorded state of a file.
type File struct {
	Path    string         `json:"path"`
	Known   bool           `json:"known"`
	Hash    string         `json:"hash"`            // "": the file does not exist
	Actor   string         `json:"actor,omitempty"` // made the last change
	Version thole.Position `json:"version"`         // zero: unknown
	Updated time.Time      `json:"updated_at,omitzero"`
}

type record struct {
	Path  string `json:"path"`
	Hash  string `json:"hash"`
	Actor string `json:"actor"`
}

// StaleError reports an edit of content that is no longer current: read the file, merge
// and try again. It unwraps to ErrConflict.
type StaleError struct {
	Path   string
	Before string // hash of the content that was edited
	Now    File
}

func (e *StaleError) Error() string {
	show := func(hash string) string {
		if hash == "" {
			return "absent"
		}
		return hash[:12]
	}
	return fmt.Sprintf("%s: the edit was made from %s, but the file is %s by %s", e.Path, show(e.Before), show(e.Now.Hash), e.Now.Actor)
}

// Unwrap returns ErrConflict.
func (e *StaleError) Unwrap() error { return thole.ErrConflict }

// Files are the files of one space.
type Files struct{ sp *thole.Space }

// In returns the files of sp, whose store must have been given [Concept].
func In(sp *thole.Space) *Files { return &Files{sp: sp.For(Name)} }

// Hash returns the hash of a content.
func Hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func checkHash(what, hash string) error {
	if hash == "" {
		return nil
	}
	if raw, err := hex.DecodeString(hash); err != nil || len(raw) != sha256.Size || strings.ToLower(hash) != hash {
		return fmt.Errorf("%w: %s %.80q is not 64 lower-case hex digits", thole.ErrInvalid, what, hash)
	}
	return nil
}

// key returns the record's key. A path is valid as for fs.ValidPath: relative, with
// slashes, without "." and "..".
func key(path string) (string, error) {
	if !fs.ValidPath(path) || path == "." {
		return "", fmt.Errorf("%w: path %.80q is not relative and clean", thole.ErrInvalid, path)
	}
	return "file/" + url.PathEscape(path), nil
}

// Get returns the recorded state of the file at path. An unknown file is not an error.
func (f *Files) Get(ctx context.Context, path string) (File, error) {
	k, err := key(path)
	if err != nil {
		return File{}, err
	}
	rec, err := f.sp.Get(ctx, k)
	if err != nil {
		return File{}, err
	}
	return read(path, rec)
}

func read(path string, rec thole.Record) (File, error) {
	if !rec.Exists() {
		return File{Path: path}, nil
	}
	var r record
	err := rec.As(&r)
	return File{Path: path, Known: true, Hash: r.Hash, Actor: r.Actor, Version: rec.Version, Updated: rec.Updated}, err
}

// Contents are the bytes before and after a change. [Files.Changed] keeps them as blobs,
// so that the change can be undone.
type Contents struct{ Before, After []byte }

// Changed records that the handle's actor changed the file from the content with hash
// before to the one with hash after; "" means that the file does not exist. Contents may
// be nil; they are stored first, and stay if the change fails. Errors: *StaleError if the
// recorded hash is not before, which changes nothing; ErrInvalid for a path, a hash, or
// contents that do not match their hash; ErrTooLarge; those of [thole.Space.Update].
func (f *Files) Changed(ctx context.Context, path, before, after string, contents *Contents) (File, error) {
	ctx = thole.Call(ctx, "file.changed", path)
	ctx = thole.Reread(ctx, reread(path, after, f.sp.Actor()))
	return done(thole.Do(ctx, f.sp, func(ctx context.Context) (File, thole.Receipt, error) {
		if err := f.keep(ctx, path, before, after, contents); err != nil {
			return File{}, thole.Receipt{}, err
		}
		return f.change(ctx, path, before, after, Change{Actor: f.sp.Actor(), Kept: contents != nil})
	}))
}

// keep stores the contents as blobs.
func (f *Files) keep(ctx context.Context, path, before, after string, contents *Contents) error {
	if contents != nil {
		for _, c := range []struct {
			hash    string
			content []byte
		}{{before, contents.Before}, {after, contents.After}} {
			if c.hash == "" {
				continue
			}
			if Hash(c.content) != c.hash {
				return fmt.Errorf("%w: %s: content does not have the hash %.80q", thole.ErrInvalid, path, c.hash)
			}
			if _, err := f.sp.PutBlob(ctx, bytes.NewReader(c.content), nil); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return nil
}

// reread rebuilds the answer from the request: see [thole.Reread].
func reread(path, hash, actor string) func(context.Context, []thole.Event) (File, error) {
	return func(context.Context, []thole.Event) (File, error) {
		return File{Path: path, Known: true, Hash: hash, Actor: actor}, nil
	}
}

// done sets the version of now to r's commit, if that changed the file.
func done(now File, r thole.Receipt, err error) (File, error) {
	if !r.First.IsZero() {
		now.Version = r.Last
	}
	return now, err
}

// Found records the hash of the content that the file at path really has. If it differs
// from the recorded one, someone changed the file without recording it, and Found emits a
// change by Outside. It never returns *StaleError.
func (f *Files) Found(ctx context.Context, path, hash string) (File, error) {
	ctx = thole.Call(ctx, "file.found", path)
	ctx = thole.Reread(ctx, reread(path, hash, Outside))
	return done(f.change(ctx, path, "", hash, Change{Actor: Outside, Found: true}))
}

// pathName is the kind of paths. Only paths of unknown files are checked.
var pathName = thole.NameKind{What: "path", Keys: []string{"file/*"}}

func (f *Files) change(ctx context.Context, path, before, after string, c Change) (File, thole.Receipt, error) {
	var none File
	k, err := key(path)
	if err != nil {
		return none, thole.Receipt{}, err
	}
	for what, hash := range map[string]string{"before": before, "after": after} {
		if err := checkHash(what, hash); err != nil {
			return none, thole.Receipt{}, err
		}
	}
	return thole.Update(ctx, f.sp, func(tx *thole.Tx) (File, error) {
		rec, err := tx.Get(k)
		if err != nil {
			return none, err
		}
		now, err := read(path, rec)
		if err != nil {
			return none, err
		}
		if !now.Known {
			if err := pathName.Check(path); err != nil {
				return none, err
			}
		}
		c.Path, c.Before, c.After, c.Previous = path, before, after, rec.Version
		switch {
		case c.Found:
			c.Before = now.Hash
		case now.Known && now.Hash != before:
			return none, &StaleError{Path: path, Before: before, Now: now}
		}
		if c.Before == after && now.Known {
			return now, nil
		}
		tx.Put(k, record{Path: path, Hash: after, Actor: c.Actor}, nil)
		tx.Emit(Stream, TypeChanged, c)
		return File{Path: path, Known: true, Hash: after, Actor: c.Actor, Updated: tx.Now()}, nil
	})
}

// Conflict records that an edit could not be applied completely, and emits file.conflict.
// It does not change the file. It sets c's Actor to the handle's.
func (f *Files) Conflict(ctx context.Context, c Conflict) error {
	ctx = thole.Call(ctx, "file.conflict", c.Path)
	if _, err := key(c.Path); err != nil {
		return err
	}
	if err := pathName.Check(c.Path); err != nil {
		return err
	}
	for what, hash := range map[string]string{"base": c.Base, "ours": c.Ours, "theirs": c.Theirs} {
		if err := checkHash(what, hash); err != nil {
			return err
		}
	}
	c.Actor = f.sp.Actor()
	_, err := f.sp.Update(ctx, func(tx *thole.Tx) error {
		tx.Emit(Stream, TypeConflict, c)
		return nil
	})
	return err
}
