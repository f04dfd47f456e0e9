package filestore

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// TryLock locks the first byte of the file.
func (f osFile) TryLock() (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("LockFileEx", err)
}

func (f osFile) Unlock() error {
	return os.NewSyscallError("UnlockFileEx", windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, new(windows.Overlapped)))
}

// SyncDir does nothing: Windows cannot sync a directory, and NTFS logs changes of
// names in order.
func (osFS) SyncDir(string) error { return nil }
