package main_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The tests of this package drive the built program from outside, over HTTP and
// its command line, as any other program would.

// program is the path of the program under test; TestMain builds it.
var program string

func TestMain(m *testing.M) {
	for variable, process := range map[string]func(string) error{loadVariable: runLoad, holderVariable: runHolder} {
		if what, ok := os.LookupEnv(variable); ok {
			if err := process(what); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	dir, err := os.MkdirTemp("", "thole-test-")
	if err == nil {
		program = filepath.Join(dir, "thole")
		build := exec.Command("go", "build", "-o", program, fmt.Sprintf("-race=%v", underRace()), ".")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the program under test:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// underRace reports whether the race detector watches the tests; it then watches
// the program too.
func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// setup says what server to start. The zero value is `thole dev` with the
// sample's script on a store and a project in a new folder.
type setup struct {
	Dir    string        // holds the store, the project and the log; default a new one
	Store  string        // DSN; default a SQLite file in Dir
	Script string        // YAML of the model; default the sample's
	Lease  time.Duration // default 30 s
	Args   []string      // more flags
}

// server is a `thole dev` process. Its methods end the test when something that
// must work does not.
type server struct {
	t       testing.TB
	Dir     string // of the process
	Project string // that the agent works on
	Store   string
	URL     string // a new one after each start
	Log     string // file with what the process said
	program string // its path; "": that of the program under test
	args    []string
	http    *http.Client

	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// startServer starts a server and waits until it listens. It is killed at the
// end of the test.
func startServer(t testing.TB, with setup) *server {
	t.Helper()
	if with.Dir == "" {
		with.Dir = t.TempDir()
	}
	if with.Store == "" {
		with.Store = "sqlite:" + filepath.Join(with.Dir, "thole.db")
	}
	if with.Lease == 0 {
		with.Lease = 30 * time.Second
	}
	s := &server{
		t: t, Dir: with.Dir, Project: filepath.Join(with.Dir, "project"), Store: with.Store,
		Log:  filepath.Join(with.Dir, "server.log"),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}},
	}
	if err := os.MkdirAll(s.Project, 0o755); err != nil {
		t.Fatal(err)
	}
	s.args = []string{"dev", "--store", s.Store, "--dir", s.Project, "--space", "project:*", "--listen", "127.0.0.1:0", "--lease", with.Lease.String()}
	if with.Script != "" {
		file := filepath.Join(with.Dir, "script.yaml")
		if err := os.WriteFile(file, []byte(with.Script), 0o644); err != nil {
			t.Fatal(err)
		}
		s.args = append(s.args, "--model", "script:"+file)
	}
	s.args = append(s.args, with.Args...)
	t.Cleanup(func() {
		s.Kill()
		s.http.CloseIdleConnections()
		if log, _ := os.ReadFile(s.Log); bytes.Contains(log, []byte("DATA RACE")) {
			t.Errorf("a data race in the server:\n%s", log)
		}
	})
	s.Start()
	return s
}

// Start starts the process (again) on the same store and a free port.
func (s *server) Start() {
	s.t.Helper()
	if err := s.TryStart(); err != nil {
		s.t.Fatalf("start: %v\n%s", err, s.LogTail())
	}
}

// TryStart is Start for a server that may refuse to start.
func (s *server) TryStart() error {
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(cmp.Or(s.program, program), s.args...)
	cmd.Dir, cmd.Stderr = s.Dir, log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	listening, done := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
				listening <- url
			}
		}
		cmd.Wait() // how it ended is in cmd.ProcessState
	}()
	s.cmd, s.done = cmd, done
	select {
	case s.URL = <-listening:
		return nil
	case <-done:
		return fmt.Errorf("it ended: %v", cmd.ProcessState)
	case <-time.After(30 * time.Second):
		s.Kill()
		return errors.New("it did not listen within 30 s")
	}
}

// Kill ends the process with SIGKILL, if it runs, and waits until it is gone.
func (s *server) Kill() {
	if s.cmd != nil {
		s.cmd.Process.Kill()
		<-s.done
	}
}

// Signal sends the process a signal.
func (s *server) Signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("signal %v: %v", sig, err)
	}
}

// Wait waits until the process has ended by itself and returns its exit code.
func (s *server) Wait(limit time.Duration) int {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(limit):
		s.t.Fatalf("the server still runs after %v\n%s", limit, s.LogTail())
	}
	return s.cmd.ProcessState.ExitCode()
}

// Terminate ends the process with SIGTERM; its exit code must be 0.
func (s *server) Terminate() {
	s.t.Helper()
	s.Signal(syscall.SIGTERM)
	if code := s.Wait(30 * time.Second); code != 0 {
		s.t.Fatalf("exit code after SIGTERM: got %d, want 0\n%s", code, s.LogTail())
	}
}

// LogTail returns the last of what the process said.
func (s *server) LogTail() string {
	log, _ := os.ReadFile(s.Log)
	return string(log[max(0, len(log)-4000):])
}

// Processes returns the ids of all processes that work in the server's folder.
func (s *server) Processes() (pids []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, dir := range dirs {
		if to, err := os.Readlink(dir); err == nil && strings.HasPrefix(to, s.Dir) {
			pids = append(pids, filepath.Base(filepath.Dir(dir)))
		}
	}
	return pids
}

// cli runs a command of the program and returns what it printed.
func cli(ctx context.Context, args ...string) (string, error) {
	return cliOf(ctx, program, args...)
}

func cliOf(ctx context.Context, program string, args ...string) (string, error) {
	var errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("thole %s: %w: %s", strings.Join(args, " "), err, errOut.String())
	}
	return string(out), err
}

// mustBeHealthy runs thole doctor on a store; it must find no problem.
func mustBeHealthy(t testing.TB, store string) {
	t.Helper()
	if out, err := cli(t.Context(), "doctor", "--store", store, "--json"); err != nil {
		t.Errorf("doctor: %v\n%s", err, out)
	}
}

// eventually waits until ok, which it asks over and over, for at most limit.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	end, tick := time.After(limit), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// exists reports whether there is a file.
func exists(path ...string) bool {
	_, err := os.Stat(filepath.Join(path...))
	return err == nil
}
