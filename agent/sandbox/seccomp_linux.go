package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What Landlock does not guard, a seccomp filter does (seccomp(2)): these calls fail
// with EPERM. The kernel allows them between all processes of one user.
//
//	prlimit64                      of another process: one without files or memory
//	                               cannot supervise
//	keyctl, add_key, request_key   the user's keys, and those of the session in which
//	                               this program was started
//
// The numbers differ by architecture, and a process may use those of the 32-bit one.
// Architectures that are not listed have no filter.
var refused = []struct{ arch, prlimit, keyctl, addKey, requestKey uint32 }{
	{unix.AUDIT_ARCH_X86_64, 302, 250, 248, 249},
	{unix.AUDIT_ARCH_I386, 340, 288, 286, 287},
	{unix.AUDIT_ARCH_AARCH64, 261, 219, 217, 218},
	{unix.AUDIT_ARCH_ARM, 369, 311, 309, 310},
}

// x32 is set in the numbers of x86-64's calls with 32-bit pointers.
const x32 = 0x40000000

// refuse puts the filter on the calling thread, and on all that it starts from now on.
func refuse() error {
	// struct seccomp_data: nr at 0, arch at 4, the low half of the first argument at 16.
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	end := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	deny, allow := end(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM)), end(unix.SECCOMP_RET_ALLOW)
	var program []unix.SockFilter
	for _, on := range refused {
		program = append(program,
			load(4), equal(on.arch, 0, 10), // else to the next architecture
			load(0), unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: ^uint32(x32)},
			equal(on.keyctl, 6, 0), equal(on.addKey, 5, 0), equal(on.requestKey, 4, 0),
			equal(on.prlimit, 0, 2),
			load(16), equal(0, 0, 1), // the process that asks
			allow, deny,
		)
	}
	program = append(program, allow)
	return install(program)
}

func install(program []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return nil
}
