//go:build !linux

package sandbox

import (
	"errors"
	"os"
)

func exchange(*os.File, string, string) error  { return errors.ErrUnsupported }
func renameNew(*os.File, string, string) error { return errors.ErrUnsupported }
func awaitQuiet(*os.File) error                { return errors.ErrUnsupported }
