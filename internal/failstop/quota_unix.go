//go:build unix

package failstop

import "syscall"

// quota is the error for an exceeded quota, which counts as a full disk.
const quota = syscall.EDQUOT
