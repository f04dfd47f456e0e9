//go:build !linux

package sandbox

import (
	"errors"
	"os"
)

func makeOwn() (string, *os.File, error) { return "", nil, errors.ErrUnsupported }

func removeLeft() {}

func landlockVersion() int { return 0 }

func systemPaths() []string { return nil }

func foreign(string) bool { return false }

var devices []string
