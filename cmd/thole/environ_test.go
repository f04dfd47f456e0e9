//go:build linux

package main_test

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/thole-dev/thole/internal/servertest"
)

// withoutLandlock runs f on a thread where the kernel has no Landlock, nor in the
// programs that the thread starts.
func withoutLandlock(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // it ends with this goroutine
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_LANDLOCK_CREATE_RULESET, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			panic(err)
		}
		if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
			panic(err)
		}
		f()
	}()
	<-done
}

// Without Landlock, the secrets in the server's memory and environment are still
// closed. Files are not, as the line for the user and the attack both say.
func TestTheAttackOnSecretsHoldsWithoutLandlockAndSaysWhatItLeavesOut(t *testing.T) {
	withoutLandlock(func() {
		cmd := exec.CommandContext(t.Context(), "../../scripts/attack/environ.sh")
		cmd.Env = append(cmd.Environ(), "THOLE="+servertest.Program())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v", err)
		}
		for _, want := range []string{"Bash has the rights of this process", "this kernel has no Landlock", "not tried", "\nheld\n"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("the attack printed %q, want %q in it", out, want)
			}
		}
	})
}
