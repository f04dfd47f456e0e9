// Package sandbox is the directory that an agent works in: files that cannot
// be reached outside of it, edits that lose nobody's work, and commands whose
// processes all end with them.
//
// Paths are relative to the directory, with slashes. A path that leaves it
// (absolute, through "..", or through a symbolic link) is thole.ErrInvalid.
// A command run by [Sandbox.Exec] is started in the directory; where it may go
// from there, [Sandbox.Confined] says.
//
// Every method is safe for concurrent use.
package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/thole-dev/thole"
)

// MaxFileBytes is the size of the largest file that is read or written.
const MaxFileBytes = 10 << 20

// Options change a Sandbox. The zero value is the default.
type Options struct {
	// Supervisor is what [Main] returned. With nil, commands run without a
	// supervisor, see [Sandbox.Exec].
	Supervisor *Supervisor
	// Env is the environment of commands. Nil means those variables of this
	// process that say nothing secret (PATH, HOME, LANG, LANGUAGE, LC_*, TERM,
	// COLORTERM, NO_COLOR, TMPDIR, USER, LOGNAME, SHELL, TZ), and those in PassEnv.
	// Where commands are confined, HOME and TMPDIR are directories of the sandbox's
	// own, which Close removes.
	Env     []string
	PassEnv []string // names
	// Read and Write are absolute paths that confined commands may read, or change,
	// besides the directory and what the system needs.
	Read, Write []string
	// Deny are absolute paths which no method reads, writes or lists, nor anything
	// below them: where the program keeps its own state. Commands are not kept from
	// those that lie in the directory; [Sandbox.Confined] says so.
	Deny []string
	// Unconfined lets commands do whatever this process may.
	Unconfined bool
	// BeforeRename, if set, is called by Replace and Create between the check
	// of the old content and the rename, so that a test can edit the file there.
	BeforeRename func(path string)
	// AfterRename, likewise, is called after the rename and before its
	// verification.
	AfterRename func(path string)
}

// Sandbox is an open directory.
type Sandbox struct {
	root *os.Root
	dir  string // absolute
	id   string
	o    Options

	denied []string // those of o.Deny that lie in the directory, resolved

	confined confinement
	own      string // directory of the commands' HOME and TMPDIR; empty if not confined
	ownLock  *os.File

	plainRename bool // for tests: as if the file system could not exchange
}

// Open opens the directory dir, which must exist.
func Open(dir string, o *Options) (*Sandbox, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fail("open", dir, err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fail("open", dir, err)
	}
	s := &Sandbox{root: root, dir: abs}
	id, err := directoryID(root, abs)
	if err != nil {
		return nil, errors.Join(fail("open", dir, err), root.Close())
	}
	s.id = Hash([]byte(id))[:32]
	if o != nil {
		s.o = *o
	}
	for _, path := range s.o.Deny {
		if path = resolve(path); within(resolve(abs), path) {
			s.denied = append(s.denied, path)
		}
	}
	if s.o.Env == nil {
		s.o.Env = commandEnv(os.Environ(), s.o.PassEnv)
	}
	if err := s.confine(); err != nil {
		return nil, errors.Join(fail("open", dir, err), root.Close())
	}
	return s, nil
}

// Close lets go of the directory. Commands that run are not stopped.
func (s *Sandbox) Close() error {
	err := s.root.Close()
	if s.own != "" {
		err = errors.Join(err, os.RemoveAll(s.own), s.ownLock.Close())
	}
	return err
}

// Dir returns the absolute path of the directory.
func (s *Sandbox) Dir() string { return s.dir }

// ID tells the directory from every other one, on this machine and on others: two
// sandboxes have one ID if they are open on one directory.
func (s *Sandbox) ID() string { return s.id }

// Clean returns the one spelling of a path under which it is locked, recorded
// and shown: relative, with slashes, without "." and "..". Errors:
// thole.ErrInvalid for a path that is empty, absolute, leaves the directory or
// is not UTF-8 text.
func Clean(name string) (string, error) {
	switch {
	case name == "":
		return "", fmt.Errorf("%w: the path is empty", thole.ErrInvalid)
	case !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0:
		return "", fmt.Errorf("%w: path %q is not UTF-8 text", thole.ErrInvalid, name)
	case path.IsAbs(name) || !filepath.IsLocal(filepath.FromSlash(name)):
		return "", fmt.Errorf("%w: path %q leaves the working directory; give a path relative to it", thole.ErrInvalid, name)
	}
	return path.Clean(filepath.ToSlash(name)), nil
}

// ReadFile returns the content of a file and its [Hash]. Errors:
// thole.ErrNotFound, thole.ErrInvalid (leaves the directory, or not a regular
// file), thole.ErrTooLarge.
func (s *Sandbox) ReadFile(name string) (content []byte, hash string, err error) {
	name, err = s.allowed(name)
	if err != nil {
		return nil, "", err
	}
	content, err = readRegular(s.root, name)
	if err != nil {
		return nil, "", fail("read", name, err)
	}
	return content, Hash(content), nil
}

// Hash returns the SHA-256 of a content in hex.
func Hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Binary reports whether a content is anything but UTF-8 text without NUL,
// so that it can be neither shown to a model nor merged by lines. Text in a
// legacy encoding counts as binary: to edit it as text would damage it.
func Binary(content []byte) bool {
	return !utf8.Valid(content) || strings.IndexByte(string(content), 0) >= 0
}

// readRegular reads a whole regular file within the size limit.
func readRegular(root *os.Root, name string) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|openNonblock, 0) // a FIFO must not block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readOpen(f)
}

// readOpen reads a whole open regular file, from its start.
func readOpen(f *os.File) ([]byte, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s, not a regular file", thole.ErrInvalid, kind(fi.Mode()))
	}
	content, err := io.ReadAll(io.NewSectionReader(f, 0, MaxFileBytes+1))
	if err == nil && len(content) > MaxFileBytes {
		err = tooLarge(max(fi.Size(), int64(len(content))))
	}
	if err != nil {
		return nil, err
	}
	return content, nil
}

func tooLarge(size int64) error {
	return fmt.Errorf("%w: %d bytes, the limit is %d", thole.ErrTooLarge, size, MaxFileBytes)
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m.IsRegular():
		return "a regular file"
	}
	return "a special file"
}

// fail wraps an error of the file system with operation and path, as the
// sentinel that it means.
func fail(op, name string, err error) error {
	var errno syscall.Errno
	var pathErr *fs.PathError
	var kind error
	switch {
	case errors.Is(err, thole.ErrInvalid), errors.Is(err, thole.ErrTooLarge), errors.Is(err, thole.ErrConflict):
		return fmt.Errorf("%s %s: %w", op, name, err)
	case errors.Is(err, fs.ErrNotExist):
		kind = thole.ErrNotFound
	case errors.Is(err, fs.ErrExist):
		kind = thole.ErrExists
	case errors.Is(err, fs.ErrClosed):
		kind = thole.ErrClosed
	case errors.As(err, &errno) && (errno == syscall.ENOTDIR || errno == syscall.EISDIR || errno == syscall.ELOOP || errno == syscall.ENAMETOOLONG):
		kind = thole.ErrInvalid
	case errors.As(err, &pathErr) && errno == 0:
		kind = thole.ErrInvalid // what os.Root itself refuses: the path escapes
	default:
		return fmt.Errorf("%s %s: %w", op, name, err)
	}
	return fmt.Errorf("%s %s: %w: %w", op, name, kind, err)
}
