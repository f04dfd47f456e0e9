package sandbox

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/thole-dev/thole"
)

// resolve follows the links of an absolute path, as far as it exists.
func resolve(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolve(parent), filepath.Base(path))
}

// within reports whether path is dir or below it; both are resolved.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// allowed is Clean for a path that is not below one of Options.Deny.
func (s *Sandbox) allowed(name string) (string, error) {
	name, err := Clean(name)
	if err == nil && s.denies(name) {
		err = fmt.Errorf("%w: path %q belongs to the store of this program and is closed", thole.ErrInvalid, name)
	}
	return name, err
}

// denies reports whether name, which is clean, is one of Options.Deny or below it,
// also through links and in another spelling that the file system takes as the same.
func (s *Sandbox) denies(name string) bool {
	if len(s.denied) == 0 {
		return false
	}
	root := resolve(s.dir)
	for path := resolve(filepath.Join(s.dir, filepath.FromSlash(name))); path != root && within(root, path); path = filepath.Dir(path) {
		fi, err := os.Stat(path)
		for _, denied := range s.denied {
			if path == denied {
				return true
			}
			if other, otherErr := os.Stat(denied); err == nil && otherErr == nil && os.SameFile(fi, other) {
				return true
			}
		}
	}
	return false
}
