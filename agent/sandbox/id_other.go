//go:build !linux

package sandbox

import (
	"os"
	"path/filepath"
)

// directoryID says which directory dir is: this machine and its path.
func directoryID(_ *os.Root, dir string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	dir, err = filepath.EvalSymlinks(dir)
	return host + " " + dir, err
}
