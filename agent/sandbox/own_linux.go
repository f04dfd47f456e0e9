package sandbox

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A sandbox's own directory in os.TempDir:
//
//	thole-sandbox-…/home, tmp   of its commands
//	thole-sandbox-…/lock        locked (flock) by the process for as long as it lives
//
// The kernel releases the lock when the process ends, in whatever way, so a directory
// whose lock is free belongs to no live process.
const (
	ownPattern = "thole-sandbox-*"
	ownLock    = "lock"
)

// makeOwn makes such a directory. Closing lock lets others remove it.
func makeOwn() (dir string, lock *os.File, err error) {
	if dir, err = os.MkdirTemp("", ownPattern); err != nil {
		return "", nil, err
	}
	err = errors.Join(os.Mkdir(filepath.Join(dir, "home"), 0o700), os.Mkdir(filepath.Join(dir, "tmp"), 0o700))
	if err == nil {
		// It gets its name once it is locked: nobody finds it free before.
		fresh := filepath.Join(dir, "lock-new")
		if lock, err = os.OpenFile(fresh, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			err = errors.Join(unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB), os.Rename(fresh, filepath.Join(dir, ownLock)))
		}
	}
	if err != nil {
		if lock != nil {
			err = errors.Join(err, lock.Close())
		}
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// removeLeft removes the directories of this user's processes that were killed. Those
// that cannot be removed stay: nothing depends on it.
func removeLeft() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), ownPattern))
	for _, dir := range dirs {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, ownLock), os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue // an earlier version's, which may be at work
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		lock.Close()
	}
}
