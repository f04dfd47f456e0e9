//go:build !unix

package failstop

import "syscall"

// quota is ERROR_DISK_FULL, as Windows says that a disk is full.
const quota = syscall.Errno(112)
