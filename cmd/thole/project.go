package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend"
)

// place checks that the project is there, and chooses a store outside of it if none is named, the
// default one would be inside, and there is none yet.
func (c *coder) place(cmd *cobra.Command) error {
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return err
	}
	if c.dir != sampleDir { // which dev makes
		if fi, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || err == nil && !fi.IsDir() {
			return fmt.Errorf("--dir %s: %w: no such folder", c.dir, thole.ErrNotFound)
		}
	}
	home, _ := os.UserHomeDir()
	if home != "" && inside(dir, home) && !c.unconfined {
		return fmt.Errorf("--dir %s holds your home: the agent's commands could change everything in it; name a project, or allow it with --bash-unconfined", c.dir)
	}
	if cmd.Flags().Changed("store") || !inside(dir, ".") {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(defaultStore)); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		if home == "" {
			return nil
		}
		state = filepath.Join(home, ".local", "state")
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	sum := sha256.Sum256([]byte(dir))
	name := filepath.Base(dir) + "-" + hex.EncodeToString(sum[:6])
	store := "sqlite:" + filepath.Join(state, "thole", name, "thole.db")
	c.app.stores = []string{store}
	c.placed = "The state is outside of the project; other commands find it with --store " + store + "\n"
	return nil
}

// inside reports whether path is dir or below it; both exist.
func inside(dir, path string) bool {
	for _, p := range []*string{&dir, &path} {
		if abs, err := filepath.Abs(*p); err == nil {
			*p = abs
		}
		if real, err := filepath.EvalSymlinks(*p); err == nil {
			*p = real
		}
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// keptIn returns the files and folders in which the stores of this process are kept.
func (a *app) keptIn() ([]string, error) {
	var all []string
	for _, store := range a.stores {
		_, dsn, _ := backend.CutRule(store)
		at, err := backend.LocalStore(dsn)
		switch {
		case err != nil:
			return nil, err
		case at == nil:
			continue
		}
		all = append(append(all, at.Path), at.Files...)
		if dir := filepath.Dir(at.Path); filepath.Base(dir) == ".thole" {
			all = append(all, dir)
		}
	}
	return all, nil
}
