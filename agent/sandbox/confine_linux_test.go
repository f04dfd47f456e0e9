package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/thole-dev/thole/internal/effort"
)

// The secrets of this process must not reach the commands that a model invents.
func TestACommandReachesNoSecretOfThisProcess(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "leak-env")
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "token"), []byte("leak-file"), 0o600))
	s := open(t, &Options{Supervisor: supervisor})
	if !s.confined.Landlock {
		t.Log("this kernel has no Landlock: files of the same user stay within reach, and Confined says so")
		if !strings.Contains(s.Confined(), "has the rights of this process") {
			t.Errorf("Confined = %q", s.Confined())
		}
	}
	for name, command := range map[string]string{
		"own environment":    "env",
		"parents' files":     "for p in $PPID $(awk '/^PPid/{print $2}' /proc/$PPID/status); do cat /proc/$p/environ /proc/$p/maps && echo leak-proc; ls /proc/$p/fd && echo leak-fd; done",
		"files elsewhere":    "cat " + outside + "/token; echo x > " + outside + "/new && echo leak-write",
		"signals":            "kill -0 $PPID && echo leak-signal",
		"files left open":    "for i in $(seq 3 9) 11 12; do { cat <&$i >/dev/null; } 2>/dev/null && echo leak-open $i; done",
		"terminals":          "for f in /dev/pts/* /dev/tty /dev/ptmx; do { true <$f; } 2>/dev/null && echo leak-tty $f; done",
		"other command line": "cat /proc/$PPID/cmdline && echo leak-cmdline",
	} {
		if !s.confined.Landlock && name != "own environment" && name != "files left open" {
			continue
		}
		res, err := s.Exec(t.Context(), command, nil)
		if err != nil || strings.Contains(res.Output, "leak-") {
			t.Errorf("%s: %v, %s", name, err, res.Output)
		}
	}
}

// The kernel judges a signal by the first thread of the process. When that was the
// confined one, one try in about 200 succeeded.
func TestACommandCannotSignalItsSupervisor(t *testing.T) {
	s := open(t, &Options{Supervisor: supervisor})
	if !s.confined.Landlock {
		t.Log("this kernel has no Landlock, and Confined says so")
		return
	}
	for i := range effort.Amount(20, 20, 200) { // under the race detector a try takes a second
		res, err := s.Exec(t.Context(), "kill -0 $PPID 2>/dev/null && echo leak-signal; true", nil)
		if err != nil || res.Output != "" {
			t.Fatalf("try %d: %v, %q", i, err, res.Output)
		}
	}
}

func TestFilesThatTheProgramInheritedDoNotReachCommands(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("leak-inherited"), 0o600))
	f, err := os.Open(secret)
	must(t, err)
	defer f.Close()
	program := exec.Command("/proc/self/exe")
	program.Dir = t.TempDir()
	program.Env = append(os.Environ(), "SANDBOX_TEST_RUN={ cat <&9; } >got 2>/dev/null; echo ended >>got")
	program.ExtraFiles = []*os.File{6: f} // its descriptor 9
	_ = program.Run()                     // ends with 1
	got, err := os.ReadFile(filepath.Join(program.Dir, "got"))
	if err != nil || string(got) != "ended\n" {
		t.Errorf("the command read %q, %v; want nothing", got, err)
	}
}

// A home directory on PATH stays closed.
func TestAPathThatHoldsTheHomeIsNotReadable(t *testing.T) {
	home := t.TempDir()
	must(t, os.Mkdir(filepath.Join(home, "bin"), 0o755))
	t.Setenv("HOME", home)
	t.Setenv("PATH", strings.Join([]string{home, filepath.Dir(home), "/", home + "/bin", os.Getenv("PATH")}, ":"))
	paths := systemPaths()
	for path, want := range map[string]bool{home: false, filepath.Dir(home): false, "/": false, home + "/bin": true} {
		if got := slices.Contains(paths, path); got != want {
			t.Errorf("%s is readable: %v, want %v", path, got, want)
		}
	}
}

func TestConfinedNamesWhatWasGranted(t *testing.T) {
	s := open(t, &Options{Supervisor: supervisor, Read: []string{"/srv/r"}, Write: []string{"/srv/w"}})
	for _, want := range []string{s.Dir(), "/srv/r", "/srv/w", "a store there", "servers on this machine", "modes and times of your files elsewhere"} {
		if s.confined.Landlock && !strings.Contains(s.Confined(), want) {
			t.Errorf("Confined = %q, want %q in it", s.Confined(), want)
		}
	}
}

// Root's commands do not bypass the permission bits of other users' files.
func TestACommandOfRootKeepsNoOverride(t *testing.T) {
	s := open(t, &Options{Supervisor: supervisor})
	if os.Geteuid() != 0 || !s.confined.Landlock {
		return // there is no capability to drop, or nothing shows it
	}
	dir := filepath.Join(s.Dir(), "theirs")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("leak-override"), 0o600))
	must(t, os.Chown(dir, 12345, 12345))
	outside := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(outside, nil, 0o600))
	must(t, os.Chown(outside, 12345, 12345))
	res, err := s.Exec(t.Context(), "cat theirs/f; for f in theirs/f "+outside+"; do chmod 666 $f && echo leak-mode; touch $f && echo leak-time; chown 1 $f && echo leak-owner; done; echo x >mine; chown 12345 mine && echo leak-given", nil)
	if err != nil || strings.Contains(res.Output, "leak-") {
		t.Errorf("another user's file: %v, %s", err, res.Output)
	}
	must(t, os.Chown(s.Dir(), 12345, 12345)) // now the project belongs to that user
	again, err := Open(s.Dir(), &Options{Supervisor: supervisor})
	must(t, err)
	defer again.Close()
	res, err = again.Exec(t.Context(), "cat theirs/f && echo x >new && chmod 600 theirs/f && chown 12345 new", nil)
	if err != nil || res.ExitCode != 0 {
		t.Errorf("in a project of another user: %v, %s", err, res.Output)
	}
}

func TestAConfinedCommandWorksInItsDirectories(t *testing.T) {
	s := open(t, &Options{Supervisor: supervisor, PassEnv: []string{"GIVEN"}, Env: nil})
	res, err := s.Exec(t.Context(), `set -e
mkdir -p a/b; echo one > a/b/f; mv a/b/f a/g; cat a/g; rm a/g
echo two > "$HOME/f"; cat "$HOME/f"; f=$(mktemp); echo three > "$f"; cat "$f"
cat <(echo four); echo five > /dev/null; head -1 /etc/passwd > /dev/null; grep -q . /proc/meminfo`, nil)
	if want := "one\ntwo\nthree\nfour\n"; err != nil || res.ExitCode != 0 || res.Output != want {
		t.Errorf("exit %d, %v, %q; want %q", res.ExitCode, err, res.Output, want)
	}
}

func TestPasswordsOnTheCommandLineAreFound(t *testing.T) {
	for arg, want := range map[string]string{
		"postgres://user:p%40ss@host/db":                   "p%40ss",
		"user:*=postgres://user:pw@host/db?sslmode=prefer": "pw",
		"postgres://host/db?user=u&password=pw&x=y":        "pw",
		"postgres://user@host:5432/db":                     "",
		"http://127.0.0.1:8465":                            "",
		"sqlite:.thole/thole.db":                           "",
	} {
		if got := password(arg); got != want {
			t.Errorf("password(%q) = %q, want %q", arg, got, want)
		}
	}
}

func call(number, a, b, c uintptr) error {
	if _, _, errno := unix.Syscall(number, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

// probe is run by a command. It asks the kernel for things that commands must not get,
// and prints what it got.
func probe(supervisor string) {
	pid, err := strconv.Atoi(supervisor)
	if err != nil {
		panic(err)
	}
	if unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, nil) == nil {
		fmt.Println("leak-limits")
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, nil); err != nil {
		fmt.Println("no limits of its own:", err)
	}
	var param uint32                 // of SCHED_BATCH, which takes the priority 0
	const batch, idle = 3, 7 | 3<<13 // and the class IOPRIO_CLASS_IDLE
	for name, set := range map[string]func(pid int) error{
		"setpriority": func(pid int) error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 19) },
		"sched_setattr": func(pid int) error {
			return unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: batch, Nice: 19}, 0)
		},
		"sched_setscheduler": func(pid int) error {
			return call(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), batch, uintptr(unsafe.Pointer(&param)))
		},
		"sched_setparam": func(pid int) error {
			return call(unix.SYS_SCHED_SETPARAM, uintptr(pid), uintptr(unsafe.Pointer(&param)), 0)
		},
		"ioprio_set": func(pid int) error { return call(unix.SYS_IOPRIO_SET, ioProcess, uintptr(pid), idle) },
	} {
		if set(pid) == nil {
			fmt.Println("leak-priority:", name)
		}
		if err := set(0); err != nil {
			fmt.Println("no priority of its own:", name, err)
		}
	}
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil {
		fmt.Println("no processors of its own:", err)
	}
	if unix.SchedSetaffinity(pid, &cpus) == nil {
		fmt.Println("leak-processors")
	}
	if err := unix.SchedSetaffinity(0, &cpus); err != nil {
		fmt.Println("no processors of its own:", err)
	}
	const wrong = 1 << 30 // flags, which the kernel checks before it checks whose process it is
	for name, move := range map[string]func(pid int) error{
		"migrate_pages": func(pid int) error { return call(unix.SYS_MIGRATE_PAGES, uintptr(pid), 0, 0) },
		"move_pages": func(pid int) error {
			_, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, uintptr(pid), 0, 0, 0, 0, wrong)
			return errno
		},
	} {
		if err := move(pid); err != unix.EPERM {
			fmt.Println("leak-pages:", name, err)
		}
		if move(0) == unix.EPERM {
			fmt.Println("no pages of its own:", name)
		}
	}
	if unix.Setpriority(unix.PRIO_USER, 0, 19) == nil || unix.Setpriority(unix.PRIO_PGRP, pid, 19) == nil {
		fmt.Println("leak-priority: of all")
	}
	if _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, false); err == nil {
		fmt.Println("leak-keys")
	}
	if _, err := unix.AddKey("user", "thole-test", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING); err == nil {
		fmt.Println("leak-keys: added one")
	}
	if _, err := unix.RequestKey("user", "thole-test", "", 0); err == unix.ENOKEY {
		fmt.Println("leak-keys: asked for one")
	}
	os.Exit(0)
}

// Landlock guards files and signals. But the kernel lets a process change limits,
// priorities and processors of all other processes of its user, and read that user's
// keys. It guards the priorities of root's processes with capabilities that a command
// does not have.
func TestACommandReachesNeitherLimitsNorPrioritiesNorKeysOfOthers(t *testing.T) {
	if landlockVersion() == 0 {
		t.Log("this kernel has no Landlock, and Confined says so")
		return
	}
	users := map[string]uint32{"this user": uint32(os.Geteuid())}
	if os.Geteuid() == 0 {
		users["nobody"] = 65534
	}
	for name, uid := range users {
		t.Run(name, func(t *testing.T) {
			out := tellAs(t, uid, "SANDBOX_TEST_PROBE=$PPID ./program; echo ended $?")
			if !strings.HasSuffix(out, "began true: <nil>: ended 0\n") {
				t.Errorf("%s; want no leak", out)
			}
		})
	}
}

// tellAs is tell as another user. The program is in the project.
func tellAs(t *testing.T, uid uint32, command string) string {
	dir, err := os.MkdirTemp("/tmp", "sandbox-test-") // t.TempDir is closed to others
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	path := filepath.Join(dir, "program")
	must(t, os.WriteFile(path, self, 0o755))
	must(t, os.Chown(path, int(uid), -1))
	must(t, os.Chown(dir, int(uid), -1))
	program := exec.Command(path)
	program.Dir = dir
	program.Env = append(os.Environ(), "SANDBOX_TEST_TELL="+command)
	program.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uint32(os.Getegid()), NoSetGroups: os.Geteuid() != 0}}
	out, err := program.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return string(out)
}

func TestACommandCannotKeepItsSupervisorFromKilling(t *testing.T) {
	for _, limit := range []string{"nofile=0:0", "as=1:1"} {
		t.Run(limit, func(t *testing.T) {
			s := open(t, &Options{Supervisor: supervisor})
			if !s.confined.Landlock {
				t.Log("this kernel has no Landlock, and Confined says so")
				return
			}
			_, mark, _ := escapist()
			_, err := s.Exec(t.Context(), "prlimit --pid $PPID --"+limit+"; (env -i setsid sleep "+mark+" </dev/null >/dev/null 2>&1 &)", &ExecOptions{Timeout: 5 * time.Second})
			if err != nil {
				t.Error(err)
			}
			for _, pid := range processes(mark) {
				t.Errorf("process %d outlived its command", pid)
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		})
	}
}

// A directory that everyone may read can contain files that only root may read.
func TestWhatOthersMayNotReadOfADirectoryIsNotGranted(t *testing.T) {
	etc := t.TempDir()
	must(t, os.Chmod(etc, 0o755))
	for name, mode := range map[string]os.FileMode{"hosts": 0o644, "shadow": 0o640, "ssl/certs/ca": 0o644, "ssl/private/key": 0o600, "ssl/config": 0o644, "closed/key": 0o644} {
		must(t, os.MkdirAll(filepath.Join(etc, filepath.Dir(name)), 0o755))
		must(t, os.WriteFile(filepath.Join(etc, name), nil, mode))
	}
	must(t, os.Chmod(filepath.Join(etc, "closed"), 0o700))
	must(t, os.Symlink("/nowhere", filepath.Join(etc, "ssl", "certs", "dangling")))
	got := public(etc)
	slices.Sort(got)
	want := []string{etc + "/hosts", etc + "/ssl/certs", etc + "/ssl/config"}
	if !slices.Equal(got, want) {
		t.Errorf("public = %q, want %q", got, want)
	}
}
