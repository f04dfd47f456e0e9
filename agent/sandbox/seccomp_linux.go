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
//	setpriority, ioprio_set,       of another process, a group or a user: one that
//	sched_setscheduler, …param,    gets no time cannot, either
//	…attr, sched_setaffinity
//	migrate_pages, move_pages      of another process: where its memory lies
//	keyctl, add_key, request_key   the user's keys, and those of the session in which
//	                               this program was started
//
// The numbers differ by architecture, and a process may use those of the 32-bit one.
// Architectures that are not listed have no filter.
//
// Modes, owners and times of files belong here too, but a filter cannot read a path,
// and commands change those of the project's files.
var refused = []struct {
	arch uint32
	all  []uint32 // refused in every case
	own  []uint32 // allowed if the first argument, a process, is 0: the one that asks
	prio uint32   // setpriority, and
	io   uint32   // ioprio_set: allowed if the second is 0, and the first says that it is a process
}{
	{unix.AUDIT_ARCH_X86_64, []uint32{250, 248, 249}, []uint32{302, 142, 144, 314, 203, 256, 279, 533}, 141, 251}, // 533: x32's move_pages
	{unix.AUDIT_ARCH_I386, []uint32{288, 286, 287}, []uint32{340, 154, 156, 351, 241, 294, 317}, 97, 289},
	{unix.AUDIT_ARCH_AARCH64, []uint32{219, 217, 218}, []uint32{261, 118, 119, 274, 122, 238, 239}, 140, 30},
	{unix.AUDIT_ARCH_ARM, []uint32{311, 309, 310}, []uint32{369, 154, 156, 380, 241, 400, 344}, 97, 314},
}

// x32 is set in the numbers of x86-64's calls with 32-bit pointers.
const x32 = 0x40000000

// The first arguments with which the second is a process (setpriority(2), ioprio_set(2)).
const (
	prioProcess = unix.PRIO_PROCESS
	ioProcess   = 1 // IOPRIO_WHO_PROCESS
)

// refuse puts the filter on the calling thread, and on all that it starts from now on.
func refuse() error {
	// struct seccomp_data: nr at 0, arch at 4, the low halves of the arguments from 16.
	const nr, arch, first, second = 0, 4, 16, 24
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
		calls := []unix.SockFilter{load(nr), {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: ^uint32(x32)}}
		for _, call := range on.all {
			calls = append(calls, equal(call, 0, 1), deny)
		}
		for _, call := range on.own {
			calls = append(calls, equal(call, 0, 4), load(first), equal(0, 0, 1), allow, deny)
		}
		for call, process := range map[uint32]uint32{on.prio: prioProcess, on.io: ioProcess} {
			calls = append(calls, equal(call, 0, 6), load(first), equal(process, 0, 3), load(second), equal(0, 0, 1), allow, deny)
		}
		program = append(program, load(arch), equal(on.arch, 0, uint8(len(calls)))) // else to the next architecture
		program = append(program, calls...)
	}
	return install(append(program, allow))
}

func install(program []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return nil
}
