package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// withoutLandlock runs f on a thread on which creating a Landlock ruleset fails with
// errno, also in the programs that it starts. If all is set, so does asking for the
// version.
func withoutLandlock(errno unix.Errno, all bool, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: it ends with this goroutine
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			panic(err)
		}
		version := uint8(0)
		if all {
			version = 1
		}
		if err := install([]unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_LANDLOCK_CREATE_RULESET, Jt: 0, Jf: 2},
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 32}, // its flags
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0, Jt: 1, Jf: version},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		}); err != nil {
			panic(err)
		}
		f()
	}()
	<-done
}

// tell starts this program again, which runs command and prints the result.
func tell(t *testing.T, command string) string {
	program := exec.Command("/proc/self/exe")
	program.Dir = t.TempDir()
	program.Env = append(os.Environ(), "SANDBOX_TEST_TELL="+command)
	out, err := program.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return string(out)
}

// On a kernel without Landlock (ENOSYS), or with it turned off (EOPNOTSUPP), commands
// run, and the line for the user says with which rights.
func TestWithoutLandlockCommandsRunAndTheUserIsTold(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "leak-env")
	for name, errno := range map[string]unix.Errno{"absent": unix.ENOSYS, "off": unix.EOPNOTSUPP} {
		t.Run(name, func(t *testing.T) {
			withoutLandlock(errno, true, func() {
				out := tell(t, "env; (setsid sleep 0.001 &); echo ran")
				for _, want := range []string{"Bash has the rights of this process", "no Landlock", "began true: <nil>: ", "\nran\n"} {
					if !strings.Contains(out, want) {
						t.Errorf("the program printed %q, want %q in it", out, want)
					}
				}
				if strings.Contains(out, "leak-") {
					t.Errorf("a secret of the environment: %s", out)
				}
			})
		})
	}
}

// If commands were promised to be confined, a command does not run unconfined.
func TestACommandThatCannotBeConfinedDoesNotRun(t *testing.T) {
	if landlockVersion() == 0 {
		t.Log("this kernel has no Landlock, and Confined says so")
		return
	}
	withoutLandlock(unix.EOPNOTSUPP, false, func() {
		if out := tell(t, "echo ran > ran; echo ran"); !strings.Contains(out, "began false: ") || !strings.Contains(out, "landlock: operation not supported") {
			t.Errorf("the program printed %q, want that the command could not be confined", out)
		}
	})
}

// The line for the user names what an older Landlock does not close.
func TestConfinedSaysWhatAnOldLandlockLeavesOpen(t *testing.T) {
	for version, want := range map[int]string{1: "empty", 2: "empty", 3: "signal", 5: "signal", 6: "", 7: ""} {
		s := &Sandbox{dir: filepath.Join("/", "p"), confined: confinement{Landlock: true, version: version}}
		got := s.Confined()
		for _, gap := range []string{"empty", "signal"} {
			has := strings.Contains(got, gap)
			if should := want == "empty" || want == gap; has != should {
				t.Errorf("version %d: %q is in %q: %v, want %v", version, gap, got, has, should)
			}
		}
	}
}
