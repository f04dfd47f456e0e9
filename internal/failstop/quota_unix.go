//go:build unix

package failstop

import "syscall"

// quota is a full quota, which is a full disk to whoever has it.
const quota = syscall.EDQUOT
