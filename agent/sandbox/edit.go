package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/thole-dev/thole"
)

// edit is one file being written. All names are in one directory, which is
// held open, so that nothing can be moved under it.
type edit struct {
	s              *Sandbox
	path           string // as the caller knows it
	parent         *os.Root
	dir            *os.File // the same directory, for system calls
	name, temp     string   // temp: the work file; empty when there is none
	expected, hash string
}

// openEdit opens the directory of an existing regular file, links followed.
func (s *Sandbox) openEdit(name string) (*edit, fs.FileInfo, error) {
	whole, err := s.root.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !whole.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%w: %s, not a regular file", thole.ErrInvalid, kind(whole.Mode()))
	}
	at := name
	for range 20 {
		e, err := s.openParent(at)
		if err != nil {
			return nil, nil, err
		}
		fi, err := e.parent.Lstat(e.name)
		if err == nil && fi.Mode()&fs.ModeSymlink == 0 {
			// Links to directories with ".." behind them can lead elsewhere
			// than their names say.
			if at == name || s.leadsTo(name, fi) {
				e.path = name
				return e, fi, nil
			}
			at = name // or it was just replaced: look again
			e.close()
			continue
		}
		var to string
		if err == nil {
			to, err = e.parent.Readlink(e.name)
		}
		e.close()
		if err != nil {
			return nil, nil, err
		}
		at = path.Join(path.Dir(at), filepath.ToSlash(to))
	}
	return nil, nil, fmt.Errorf("%w: its symbolic links are too involved to write through", thole.ErrInvalid)
}

func (s *Sandbox) leadsTo(name string, want fs.FileInfo) bool {
	fi, err := s.root.Stat(name)
	return err == nil && os.SameFile(fi, want)
}

func (s *Sandbox) openParent(name string) (*edit, error) {
	parent, err := s.root.OpenRoot(path.Dir(name))
	if err != nil {
		return nil, err
	}
	dir, err := parent.Open(".")
	if err != nil {
		parent.Close()
		return nil, err
	}
	return &edit{s: s, path: name, parent: parent, dir: dir, name: path.Base(name)}, nil
}

// close removes the work file, if it is still one, and lets go of the
// directory and its lock.
func (e *edit) close() {
	if e.temp != "" {
		e.parent.Remove(e.temp)
	}
	e.dir.Close()
	e.parent.Close()
}

// prepare writes content to the work file, with mode and owner of old if any.
func (e *edit) prepare(content []byte, old fs.FileInfo) error {
	temp := tempName(e.name)
	f, err := e.parent.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	e.temp = temp
	_, err = f.Write(content)
	if old != nil {
		chownLike(f, old)
		err = errors.Join(err, f.Chmod(old.Mode().Perm()))
	}
	return errors.Join(err, f.Sync(), f.Close())
}

func (e *edit) hook(f func(string)) {
	if f != nil {
		f(e.path)
	}
}

const tempPrefix = ".thole-"

// tempName returns a fresh name for a work file that tells what it is for.
func tempName(name string) string {
	if len(name) > 200 {
		name = name[:200] // a name has 255 bytes at most
	}
	return tempPrefix + rand.Text()[:10] + "-" + strings.ToValidUTF8(name, "")
}

func isTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }
