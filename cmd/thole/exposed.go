package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/thole-dev/thole/backend"
)

// exposed returns a line for each store in files here that every user of this machine
// may read or change, with the command that ends it. What its owner's group may is the
// owner's choice.
func (a *app) exposed() (lines []string) {
	if runtime.GOOS == "windows" {
		return nil // it has no such rights
	}
	for _, store := range a.stores {
		_, dsn, _ := backend.CutRule(store)
		at, err := backend.LocalStore(dsn)
		if at == nil || err != nil || !reachable(filepath.Dir(at.Path)) {
			continue
		}
		var open []string
		command := "chmod o= "
		if at.IsFolder() {
			command = "chmod -R o= "
			if othersMay(at.Path, 0o006) {
				open = append(open, at.Path)
			}
		} else {
			for _, name := range at.Files {
				if othersMay(name, 0o006) {
					open = append(open, name)
				}
			}
			if dir := filepath.Dir(at.Path); othersMay(dir, 0o002) { // and put another file in its place
				open = append(open, dir)
			}
		}
		if len(open) > 0 {
			files := strings.Join(open, " ")
			lines = append(lines, "warning: every user of this machine may read or change "+files+": end that with `"+command+files+"`")
		}
	}
	return lines
}

// othersMay reports whether others than the owner and the group have one of those
// rights. In a folder with the sticky bit they cannot replace what is not theirs.
func othersMay(path string, rights fs.FileMode) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().Perm()&rights != 0 && fi.Mode()&fs.ModeSticky == 0
}

// reachable reports whether others may pass through dir and all that is above it.
func reachable(dir string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	above := []string{dir}
	for filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
		above = append(above, dir)
	}
	return !slices.ContainsFunc(above, func(dir string) bool {
		fi, err := os.Stat(dir)
		return err != nil || fi.Mode().Perm()&0o001 == 0
	})
}
