// Package examples contains the sample that comes with the program: a small web project
// (button/) and recorded turns of an agent that works on it (script.yaml), so that all
// of Thole runs without a key and without a network.
package examples

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/thole-dev/thole/agent/model"
)

//go:embed button script.yaml
var files embed.FS

// Script returns the recorded turns on the sample project: "Create a button
// component", "Make it blue", "Add a click handler".
func Script() (*model.Script, error) {
	data, err := files.ReadFile("script.yaml")
	if err != nil {
		return nil, fmt.Errorf("sample: %w", err)
	}
	return model.ParseScript("script.yaml", data)
}

// Project returns the sample project.
func Project() fs.FS {
	sub, err := fs.Sub(files, "button")
	if err != nil {
		panic(err) // the name is a constant
	}
	return sub
}

// LayOut copies the sample project into dir, creates dir if it does not exist, and
// returns true. It does not change a dir that contains anything.
func LayOut(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, fmt.Errorf("sample project: %w", err)
	case len(entries) > 0:
		return false, nil
	}
	err = fs.WalkDir(Project(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if d.IsDir() {
			return os.MkdirAll(to, 0o777)
		}
		data, err := fs.ReadFile(Project(), name)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o666)
	})
	if err != nil {
		return false, fmt.Errorf("sample project: %w", err)
	}
	return true, nil
}
