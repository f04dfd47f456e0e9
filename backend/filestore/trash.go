package filestore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/thole-dev/thole/journal"
)

// A purge of a whole space renames it to DIR/.thole/trash, so that a crash leaves all
// of it or nothing, and then removes it there. The purge fails as long as the trash is
// not empty; the next purge and Open empty it. The name of a directory in the trash ends
// with the hash of the space's name.

// discard moves a directory of a space to the trash. A missing one is not an error.
func (s *Store) discard(space, dir string) error {
	trash := s.private("trash", journal.NewEpoch(1)+"-"+trashMark(space))
	err := s.disk.Rename(dir, trash)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.disk.syncDirs([]string{filepath.Dir(dir), filepath.Dir(trash)})
}

func trashMark(space string) string {
	sum := sha256.Sum256([]byte(space))
	return hex.EncodeToString(sum[:8])
}

// discarded reports whether the trash holds a directory of a space.
func (s *Store) discarded(space string) (bool, error) {
	entries, err := s.disk.ReadDir(s.private("trash"))
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "-"+trashMark(space)) {
			return true, err
		}
	}
	return false, err
}

// empty empties the trash and removes leftover temporary files. A flush that is running
// writes its files again. The caller holds the lock.
//
// It first makes durable that the directories are in the trash: whoever moved them there
// may have died or failed to, and a power loss must not move back what is left of them.
func (s *Store) empty() error {
	for _, dir := range []string{s.private("tmp"), s.private("trash")} {
		entries, err := s.disk.ReadDir(dir)
		if err == nil && len(entries) > 0 {
			err = s.disk.syncDirs([]string{dir})
		}
		for _, e := range entries {
			if err == nil {
				err = s.disk.removeAll(filepath.Join(dir, e.Name()))
			}
		}
		if err == nil && len(entries) > 0 {
			err = s.disk.syncDirs([]string{dir})
		}
		if err != nil {
			return fmt.Errorf("what was purged is not off the disk yet; purge again, or open the store again, to finish that: %w", err)
		}
	}
	return nil
}
