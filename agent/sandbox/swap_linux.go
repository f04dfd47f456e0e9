package sandbox

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// exchange swaps two names of a directory atomically.
func exchange(dir *os.File, a, b string) error { return rename2(dir, a, b, unix.RENAME_EXCHANGE) }

// renameNew renames from to to unless to exists (fs.ErrExist).
func renameNew(dir *os.File, from, to string) error {
	return rename2(dir, from, to, unix.RENAME_NOREPLACE)
}

func rename2(dir *os.File, from, to string, flags uint) error {
	fd := int(dir.Fd())
	err := unix.Renameat2(fd, from, fd, to, flags)
	if err == unix.EINVAL || err == unix.ENOSYS {
		return errors.ErrUnsupported // the file system, or the kernel, cannot
	}
	if err != nil {
		return os.NewSyscallError("renameat2", err)
	}
	return nil
}

// awaitQuiet waits until no process has f open for writing and takes a read
// lease: as long as f stays open, one that opens it for writing has to wait.
// It returns ErrBusy if that takes too long, any other error if the file
// system or the file's owner gives no leases. See fcntl(2), "Leases".
func awaitQuiet(f *os.File) error {
	deadline := time.Now().Add(quietTime)
	for {
		_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
		if err != unix.EAGAIN {
			return err
		}
		if time.Now().After(deadline) {
			return ErrBusy
		}
		time.Sleep(time.Millisecond) // the kernel offers no way to wait for this
	}
}
