//go:build unix

package sandbox

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

const openNonblock = syscall.O_NONBLOCK

// lockDir takes an advisory lock of a directory that lasts until dir is closed.
func lockDir(dir *os.File) error {
	deadline := time.Now().Add(2 * quietTime)
	for {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			return nil // held; or a file system without locks, which we do without
		}
		if time.Now().After(deadline) {
			return ErrBusy
		}
		time.Sleep(time.Millisecond)
	}
}

func syncDir(dir *os.File) error { return dir.Sync() }

// chownLike gives f the owner of old, if this process may.
func chownLike(f *os.File, old fs.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok {
		f.Chown(int(st.Uid), int(st.Gid))
	}
}
