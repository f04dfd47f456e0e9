package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/thole-dev/thole"
)

// ChangedError is an edit that was not made because the file is not what its
// author last read. It unwraps to thole.ErrConflict. Merge Content in and try
// again with Got.
type ChangedError struct {
	Path      string
	Want, Got string // hashes; Want is empty for a Create, Got if Missing
	Content   []byte // what is in the file now
	Missing   bool   // the file is gone
	// Kept is the path of a second content that was written while the first
	// change was being put back; empty nearly always. It is older than Content.
	Kept string
}

func (e *ChangedError) Error() string {
	switch {
	case e.Missing:
		return fmt.Sprintf("%s was removed since it was read", e.Path)
	case e.Kept != "":
		return fmt.Sprintf("%s changed twice since it was read; the older change is kept in %s", e.Path, e.Kept)
	case e.Want == "":
		return fmt.Sprintf("%s exists already", e.Path)
	}
	return fmt.Sprintf("%s changed since it was read", e.Path)
}

// Unwrap returns thole.ErrConflict.
func (e *ChangedError) Unwrap() error { return thole.ErrConflict }

// ErrBusy is a file that another program keeps open for writing.
var ErrBusy = fmt.Errorf("%w: another program has the file open for writing; try again when it is done", thole.ErrConflict)

// quietTime is how long an edit waits for other writers of a file or its
// directory to be done.
const quietTime = 2 * time.Second

// EditOptions change [Sandbox.Replace] and [Sandbox.Create]. The zero value is
// the default.
type EditOptions struct {
	// Confirm, if set, is called once the edit holds the lock of its directory,
	// before it changes anything. An error refuses the edit and is returned. A
	// worker proves there that its lease is still its own: whoever takes the lease
	// over and then calls [Sandbox.ReadSettled] sees the edit, or Confirm fails.
	Confirm func() error
}

func (o *EditOptions) confirm() error {
	if o == nil || o.Confirm == nil {
		return nil
	}
	return o.Confirm()
}

// Replace changes the content of an existing file from what hashes to expected
// to content, durably, and returns the new hash. Readers see the old or the new
// content, never a part. Mode and (where permitted) owner are kept; a symbolic
// link is followed inside the directory; other hard links keep the old content.
//
// Errors: *ChangedError (thole.ErrConflict) if the file is not as expected,
// thole.ErrConflict if another program keeps it open for writing,
// thole.ErrNotFound, thole.ErrInvalid, thole.ErrTooLarge, that of o.Confirm. An
// error of the file system may come after the new content is in place: look at
// the file with ReadSettled.
//
// An edit that a person makes at any moment is not lost:
//
//	write .thole-…-name, fsync     new content beside the old
//	lock the directory, confirm    edits of this package take turns
//	hash name                      not expected: ChangedError
//	exchange the two names         atomically: the old content is now aside
//	wait until nobody writes it    a lease: no other open-for-write exists
//	hash what was aside            not expected: exchange back, ChangedError
//	fsync directory, unlink it
//
// What remains: a program that looked the old file up before the exchange and
// has not finished opening it when it is unlinked; one that maps the file's
// pages after closing it; and one that overwrites the new content from its own
// older copy, which the next expected hash shows. A crash between exchange and
// unlink leaves the old content in a work file, see [Sandbox.Leftovers].
//
// Where files cannot be exchanged (not Linux, or a file system without
// renameat2) the hash is checked right before a plain rename, and an edit
// between the two is lost. Where leases are not to be had (not the owner, some
// network file systems) what was aside is hashed twice instead.
func (s *Sandbox) Replace(name, expected string, content []byte, o *EditOptions) (hash string, err error) {
	name, err = s.allowed(name)
	if err != nil {
		return "", err
	}
	if len(content) > MaxFileBytes {
		return "", fail("replace", name, tooLarge(int64(len(content))))
	}
	e, old, err := s.openEdit(name)
	if err != nil {
		return "", fail("replace", name, err)
	}
	defer e.close()
	e.expected, e.hash = expected, Hash(content)
	if err := e.prepare(content, old); err != nil {
		return "", fail("replace", name, err)
	}
	if err := e.swap(o); err != nil {
		return "", fail("replace", name, err)
	}
	return e.hash, nil
}

// Create writes a new file, durably, making the directories above it, and
// returns its hash. Errors: *ChangedError (thole.ErrConflict) if there is a
// file, thole.ErrExists if there is anything else; else as those of Replace.
func (s *Sandbox) Create(name string, content []byte, o *EditOptions) (hash string, err error) {
	name, err = s.allowed(name)
	if err != nil {
		return "", err
	}
	if len(content) > MaxFileBytes {
		return "", fail("create", name, tooLarge(int64(len(content))))
	}
	if err := s.root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return "", fail("create", name, err)
	}
	e, err := s.openParent(name)
	if err != nil {
		return "", fail("create", name, err)
	}
	defer e.close()
	e.hash = Hash(content)
	if err := e.prepare(content, nil); err != nil {
		return "", fail("create", name, err)
	}
	if err := e.begin(o); err != nil {
		return "", fail("create", name, err)
	}
	e.hook(s.o.BeforeRename)
	err = e.place()
	if errors.Is(err, fs.ErrExist) {
		if there, readErr := readRegular(e.parent, e.name); readErr == nil {
			return "", fail("create", name, &ChangedError{Path: name, Got: Hash(there), Content: there})
		}
	}
	if err != nil {
		return "", fail("create", name, err)
	}
	e.hook(s.o.AfterRename)
	if err := syncDir(e.dir); err != nil {
		return "", fail("create", name, err)
	}
	return e.hash, nil
}

// ReadSettled is ReadFile when no edit by this package is under way in the file's
// directory: it waits for one, up to some seconds. What it returns stays true of
// an edit whose Confirm fails from now on. Errors: those of ReadFile, [ErrBusy].
//
// On a file system without flock it is ReadFile.
func (s *Sandbox) ReadSettled(name string) (content []byte, hash string, err error) {
	name, err = s.allowed(name)
	if err != nil {
		return nil, "", err
	}
	e, _, err := s.openEdit(name)
	if errors.Is(err, fs.ErrNotExist) {
		e, err = s.openParent(name)
	}
	if err != nil {
		return nil, "", fail("read", name, err)
	}
	defer e.close()
	if err := lockDir(e.dir); err != nil {
		return nil, "", fail("read", name, err)
	}
	return s.ReadFile(name)
}

// begin locks the directory, so that the editors that use this package take
// turns, in this process and others, and asks whether the edit is still wanted.
// The lock binds no one else.
func (e *edit) begin(o *EditOptions) error {
	if err := lockDir(e.dir); err != nil {
		return err
	}
	return o.confirm()
}

// swap puts the work file in the place of the old one by the protocol of
// Replace.
func (e *edit) swap(o *EditOptions) error {
	if err := e.begin(o); err != nil {
		return err
	}
	if err := e.check(); err != nil {
		return err
	}
	e.hook(e.s.o.BeforeRename)
	err := errors.ErrUnsupported
	if !e.s.plainRename {
		err = exchange(e.dir, e.temp, e.name)
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return e.renameOver()
	case errors.Is(err, fs.ErrNotExist):
		return &ChangedError{Path: e.path, Want: e.expected, Missing: true}
	case err != nil:
		return err
	}
	e.hook(e.s.o.AfterRename)

	aside, release, err := e.readAside()
	defer release()
	if err != nil || Hash(aside) != e.expected {
		return e.putBack(aside, err)
	}
	// The directory first: after a power loss the old content may come back,
	// but never nothing.
	if err := syncDir(e.dir); err != nil {
		return err
	}
	err = e.parent.Remove(e.temp)
	e.temp = ""
	return err
}

// check compares the file with what is expected, and waits for its writers.
func (e *edit) check() error {
	f, err := e.parent.OpenFile(e.name, os.O_RDONLY|openNonblock, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return &ChangedError{Path: e.path, Want: e.expected, Missing: true}
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := awaitQuiet(f); errors.Is(err, ErrBusy) {
		return err
	}
	content, err := readOpen(f)
	if err != nil {
		return err
	}
	if got := Hash(content); got != e.expected {
		return &ChangedError{Path: e.path, Want: e.expected, Got: got, Content: content}
	}
	return nil
}

// readAside reads what the exchange put aside, once nobody writes it any more,
// and keeps it so until release is called.
func (e *edit) readAside() (content []byte, release func(), err error) {
	fi, err := e.parent.Lstat(e.temp)
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%w: it became %s", thole.ErrConflict, kind(fi.Mode()))
	}
	if err != nil {
		return nil, func() {}, err
	}
	f, err := e.parent.OpenFile(e.temp, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, func() {}, err
	}
	release = func() { f.Close() } // ends the lease
	quiet := awaitQuiet(f)
	if errors.Is(quiet, ErrBusy) {
		return nil, release, quiet
	}
	content, err = readOpen(f)
	if err == nil && quiet != nil { // no lease to be had: look twice
		content, err = readOpen(f)
	}
	return content, release, err
}

// putBack undoes the exchange: aside is somebody else's change (or cause says
// why it could not be read) and goes back under its name.
func (e *edit) putBack(aside []byte, cause error) error {
	err := exchange(e.dir, e.temp, e.name)
	if err == nil {
		// Whoever opened ours while it had the name may be about to write it.
		ours, release, readErr := e.readAside()
		defer release()
		if readErr == nil && Hash(ours) == e.hash {
			if removeErr := e.parent.Remove(e.temp); removeErr == nil { // before the lease ends
				e.temp = ""
			}
			if cause != nil {
				return cause
			}
			return &ChangedError{Path: e.path, Want: e.expected, Got: Hash(aside), Content: aside}
		}
		// Someone wrote over ours in between. That is the newest change: it
		// stays, and what was aside is kept beside it.
		err = exchange(e.dir, e.temp, e.name)
	}
	kept := fmt.Sprintf("%s.thole-kept-%s", e.name, rand.Text()[:8])
	if renameErr := e.parent.Rename(e.temp, kept); renameErr != nil {
		work := e.temp
		e.temp = "" // close must not remove it
		return errors.Join(renameErr, err, fmt.Errorf("a change of %s is in %s", e.path, work))
	}
	e.temp = ""
	changed := &ChangedError{Path: e.path, Want: e.expected, Kept: path.Join(path.Dir(e.path), kept)}
	if content, readErr := readRegular(e.parent, e.name); readErr == nil {
		changed.Got, changed.Content = Hash(content), content
	} else {
		changed.Missing = errors.Is(readErr, fs.ErrNotExist)
	}
	return changed
}

// renameOver is the fallback without an exchange; its window is between these
// two steps.
func (e *edit) renameOver() error {
	if err := e.check(); err != nil {
		return err
	}
	if err := e.parent.Rename(e.temp, e.name); err != nil {
		return err
	}
	e.temp = ""
	return syncDir(e.dir)
}

// place gives the work file its name unless that is taken.
func (e *edit) place() error {
	err := errors.ErrUnsupported
	if !e.s.plainRename {
		err = renameNew(e.dir, e.temp, e.name)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		// A second link is refused atomically too; close removes the first.
		return e.parent.Link(e.temp, e.name)
	}
	if err == nil {
		e.temp = ""
	}
	return err
}
