package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
)

// both runs a test with and without a supervisor.
func both(t *testing.T, f func(t *testing.T, s *Sandbox)) {
	t.Run("supervised", func(t *testing.T) { f(t, open(t, &Options{Supervisor: supervisor})) })
	t.Run("plain", func(t *testing.T) { f(t, open(t, nil)) })
}

func TestExecTellsHowTheCommandEnded(t *testing.T) {
	both(t, func(t *testing.T, s *Sandbox) {
		must(t, os.Mkdir(s.Dir()+"/sub", 0o755))
		tests := []struct {
			command, output, signal string
			code                    int
		}{
			{"echo out; echo err >&2; exit 3", "out\nerr\n", "", 3},
			{"basename $PWD; echo $GREETING", "sub\nhello\n", "", 0},
			{"cat", "", "", 0},
			{"kill -TERM $$", "", "terminated", -1},
			{`printf 'a\377b\303'`, "a\uFFFDb\uFFFD", "", 0},
			{"no-such-command-at-all 2>/dev/null", "", "", 127},
		}
		for _, tt := range tests {
			got, err := s.Exec(t.Context(), tt.command, &ExecOptions{Dir: "sub", Env: []string{"GREETING=hello"}})
			if err != nil || got.ExitCode != tt.code || got.Signal != tt.signal || got.Output != tt.output || got.Duration <= 0 {
				t.Errorf("Exec(%q) = %+v, %v; want %q, exit %d %s", tt.command, got, err, tt.output, tt.code, tt.signal)
			}
		}
		if _, err := s.Exec(t.Context(), strings.Repeat("x", 200<<10), nil); !errors.Is(err, thole.ErrTooLarge) {
			t.Errorf("Exec of 200 kB = %v, want ErrTooLarge", err)
		}
	})
}

func TestCommandsDoNotSeeKeys(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	t.Setenv("THOLE_TOKEN", "secret")
	s := open(t, &Options{Supervisor: supervisor})
	got, err := s.Exec(t.Context(), "env", nil)
	if err != nil || strings.Contains(got.Output, "secret") || !strings.Contains(got.Output, "PATH=") {
		t.Errorf("env = %q, %v; want it without secrets", got.Output, err)
	}
}

func TestOutputIsCappedAndStreamed(t *testing.T) {
	s := open(t, &Options{Supervisor: supervisor})
	var live int
	got, err := s.Exec(t.Context(), "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo ü last", &ExecOptions{
		MaxOutput: 1000,
		Output:    func(p []byte) { live += len(p) },
	})
	must(t, err)
	if len(got.Output) > 1100 || !strings.HasPrefix(got.Output, "first\nxxx") || !strings.HasSuffix(got.Output, "x\nü last\n") {
		t.Errorf("Output has %d bytes: %.20q…; want first and last lines in about 1,000", len(got.Output), got.Output)
	}
	if want := 3000000 + len("first\n\nü last\n"); live != want {
		t.Errorf("streamed %d bytes, want %d", live, want)
	}
	if got.Cut < 2900000 || !strings.Contains(got.Output, fmt.Sprint(got.Cut)) {
		t.Errorf("Cut = %d, want what is left out, and said so", got.Cut)
	}
}

// escapist returns a command whose processes try to escape, and the mark by which they
// are found.
func escapist() (command, mark string, processes int) {
	mark = fmt.Sprintf("300.%09d", rand.IntN(1e9))
	return fmt.Sprintf(`setsid sh -c 'sleep %[1]s & (setsid sleep %[1]s </dev/null >/dev/null 2>&1 &) ' & sleep %[1]s`, mark), mark, 3
}

func TestCancelKillsEveryDescendant(t *testing.T) {
	both(t, func(t *testing.T, s *Sandbox) {
		command, mark, n := escapist()
		cause := errors.New("the user changed their mind")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			await(t, mark, n)
			cancel(cause)
		}()
		got, err := s.Exec(ctx, "echo started; "+command, nil)
		if !errors.Is(err, cause) || got.Output != "started\n" {
			t.Errorf("Exec = %+v, %v; want the output so far and the cause", got, err)
		}
		await(t, mark, 0)
		if _, err := s.Exec(ctx, "echo again", nil); !errors.Is(err, cause) {
			t.Errorf("Exec after cancel = %v, want the cause", err)
		}
	})
}

func TestTimeoutKillsEveryDescendant(t *testing.T) {
	both(t, func(t *testing.T, s *Sandbox) {
		command, mark, _ := escapist()
		_, err := s.Exec(t.Context(), command, &ExecOptions{Timeout: 200 * time.Millisecond})
		if !errors.Is(err, ErrTimeout) {
			t.Errorf("Exec = %v, want ErrTimeout", err)
		}
		await(t, mark, 0)
	})
}

func TestBackgroundProcessesDieWithTheCommand(t *testing.T) {
	both(t, func(t *testing.T, s *Sandbox) {
		_, mark, _ := escapist()
		got, err := s.Exec(t.Context(), fmt.Sprintf("(setsid sleep %s &); setsid sleep %s & echo done", mark, mark), nil)
		if err != nil || got.Output != "done\n" || got.ExitCode != 0 {
			t.Errorf("Exec = %+v, %v; want done", got, err)
		}
		await(t, mark, 0)
	})
}

// The supervisor catches a chain of processes, each of which forks the next one and
// ends.
func TestAChainOfForksIsKilled(t *testing.T) {
	s := open(t, &Options{Supervisor: supervisor})
	must(t, os.WriteFile(filepath.Join(s.Dir(), "chain"), []byte("echo >>log; setsid sh ./chain &\n"), 0o755))
	for range 5 {
		if _, err := s.Exec(t.Context(), "for i in 1 2 3 4; do sh ./chain & done; while [ ! -s log ]; do :; done", nil); err != nil {
			t.Fatal(err)
		}
		wantNoChain(t)
	}
}

// wantNoChain fails if a process of the chain is alive.
func wantNoChain(t *testing.T) {
	t.Helper()
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if args, _ := os.ReadFile(name); string(args) == "sh\x00./chain\x00" {
			t.Errorf("%s lives", name)
		}
	}
}

func TestSupervisedProcessesDieWithAKilledProgram(t *testing.T) {
	command, mark, n := escapist()
	program := exec.Command("/proc/self/exe")
	program.Dir = t.TempDir()
	program.Env = append(os.Environ(), "SANDBOX_TEST_RUN="+command)
	must(t, program.Start())
	await(t, mark, n)
	must(t, program.Process.Kill())
	program.Wait()
	await(t, mark, 0)
}

func TestProcessesDieEvenIfTheSupervisorIsKilled(t *testing.T) {
	s := open(t, &Options{Supervisor: supervisor, Unconfined: true}) // a confined command cannot
	command, mark, _ := escapist()
	_, err := s.Exec(t.Context(), strings.TrimSuffix(command, "& sleep "+mark)+"; sleep 0.1; kill -9 $PPID; sleep "+mark, nil)
	if err == nil {
		t.Error("Exec did not report that its supervisor was killed")
	}
	await(t, mark, 0)
}

// A process with a cleaned environment and no open file of ours is still a
// descendant.
func TestSupervisedProcessesDieWithoutTheirMark(t *testing.T) {
	s := open(t, &Options{Supervisor: supervisor})
	_, mark, _ := escapist()
	_, err := s.Exec(t.Context(), fmt.Sprintf("(env -i setsid sleep %s </dev/null >/dev/null 2>&1 &)", mark), nil)
	must(t, err)
	await(t, mark, 0)
}

func TestTheSupervisorIsNotForUsers(t *testing.T) {
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{supervisorName, "id", "/bin/sh", "-c", "echo ran"}}
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Contains(string(out), "ran") {
		t.Errorf("a supervisor by hand = %q, %v; want a refusal", out, err)
	}
}

// await polls until n processes have mark among their arguments.
func await(t testing.TB, mark string, n int) {
	t.Helper()
	limit, tick := time.After(10*time.Second), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		found := processes(mark)
		if len(found) == n {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Errorf("processes %v have the argument %s, want %d", found, mark, n)
			return
		}
	}
}

// processes returns the pids of sleep commands with the argument mark.
func processes(mark string) []int {
	var found []int
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		args, _ := os.ReadFile(name)
		if string(args) == "sleep\x00"+mark+"\x00" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			found = append(found, pid)
		}
	}
	return found
}
