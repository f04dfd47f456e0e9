package filestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/thole-dev/thole/journal"
)

// formatFile holds the format version of a store. It is under version control, so
// that checking out an old state also restores its version.
const formatFile = "thole.json"

// Files returns the file without which dir is no store.
func Files(dir string) []string { return []string{filepath.Join(dir, formatFile)} }

// migrations returns the steps between formats: step n turns format n into n+1.
func migrations() []migration {
	return []migration{
		{"make the directory a store of format 1", func(*Store) error { return nil }},
	}
}

type migration struct {
	what string
	do   func(*Store) error
}

// format returns the format of the store, 0 for a directory that is not a store yet.
func (s *Store) format() (int, error) {
	path := filepath.Join(s.dir, formatFile)
	data, err := s.disk.readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var f struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &f); err != nil || f.Format < 1 {
		return 0, fmt.Errorf(`%w: %s does not say {"format": N}; restore it, or name another directory`, journal.ErrCorrupt, path)
	}
	if known := len(migrations()); f.Format > known {
		return 0, fmt.Errorf("%w: file store %s has format %d, this program knows formats up to %d; use a newer program",
			errors.ErrUnsupported, s.dir, f.Format, known)
	}
	return f.Format, nil
}

// migrate runs the missing steps and returns their descriptions. The caller holds
// the lock, so that only one process migrates.
func (s *Store) migrate(dryRun bool) (steps []string, err error) {
	format, err := s.format()
	if err != nil {
		return nil, err
	}
	for n, m := range migrations()[format:] {
		steps = append(steps, m.what)
		if dryRun {
			continue
		}
		if err := m.do(s); err != nil {
			return steps, fmt.Errorf("%s: %w", m.what, err)
		}
		text := fmt.Sprintf("{\n  \"format\": %d\n}\n", format+n+1)
		if err := s.replaceFile(filepath.Join(s.dir, formatFile), []byte(text)); err != nil {
			return steps, err
		}
	}
	return steps, nil
}

// replaceFile replaces a file atomically and durably.
func (s *Store) replaceFile(path string, data []byte) error {
	tmp := s.private("new-" + filepath.Base(path))
	if _, err := s.disk.writeFile(tmp, data, true); err != nil {
		return err
	}
	if err := s.disk.Rename(tmp, path); err != nil {
		return err
	}
	return s.disk.syncDirs([]string{filepath.Dir(path)})
}

// Migrate brings the store in dir up to the format of this program, as Open
// does, and returns one line for each step it ran. With dryRun it changes nothing
// and returns the steps it would run. It returns ErrNotFound if the directory does
// not exist; its other errors are those of [Open].
func Migrate(ctx context.Context, dir string, dryRun bool) ([]string, error) {
	s, err := newStore(dir, nil)
	if err != nil {
		return nil, err
	}
	if ok, err := s.disk.exists(s.dir); err != nil || !ok {
		return nil, fmt.Errorf("migrate: %w: file store %s", journal.ErrNotFound, s.dir)
	}
	steps, err := s.migrate(true)
	if err != nil || dryRun || len(steps) == 0 {
		return steps, s.explain(err)
	}
	s, err = Open(ctx, dir, nil)
	if err != nil {
		return nil, err
	}
	return steps, s.Close()
}
