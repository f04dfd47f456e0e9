//go:build !unix

package failstop

import "syscall"

// quota is ERROR_DISK_FULL, Windows' error for a full disk.
const quota = syscall.Errno(112)
