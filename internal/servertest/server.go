package servertest

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Serve starts `thole serve`, whose requests need tokens.
func Serve(t *testing.T, dir string) *Server {
	t.Helper()
	s := Start(t, Setup{Dir: dir})
	s.Terminate()
	s.Args = []string{"serve", "--store", s.Store, "--listen", "127.0.0.1:0"}
	s.Start()
	return s
}

// Metric reads one number from /metrics; a missing one is 0.
func (s *Server) Metric(name string) float64 {
	s.T.Helper()
	text := s.Must("GET", "/metrics", nil, nil).Body
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if m == nil {
		return 0
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		s.T.Fatal(err)
	}
	return v
}

// Memory returns the memory of the server's process in MiB.
func (s *Server) Memory() int {
	s.T.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.T.Fatal(err)
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	kb, err := strconv.Atoi(string(m[1]))
	if err != nil {
		s.T.Fatal(err)
	}
	return kb >> 10
}

// Setup says what server to start. The zero value is `thole dev` with the
// sample's script on a store and a project in a new folder.
type Setup struct {
	Dir    string        // holds the store, the project and the log; default a new one
	Store  string        // DSN; default a SQLite file in Dir
	Script string        // YAML of the model; default the sample's
	Lease  time.Duration // default 30 s
	Args   []string      // more flags
}

// Server is a `thole dev` process. Its methods end the test when something that
// must work does not.
type Server struct {
	T       testing.TB
	Dir     string // of the process
	Project string // the project of the agent
	Store   string
	URL     string // a new one after each start
	Log     string // file with the output of the process
	Program string // its path; "": that of the program under test
	Args    []string
	HTTP    *http.Client

	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// Start starts a server and waits until it listens. It is killed at the
// end of the test.
func Start(t testing.TB, with Setup) *Server {
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
	s := &Server{
		T: t, Dir: with.Dir, Project: filepath.Join(with.Dir, "project"), Store: with.Store,
		Log:  filepath.Join(with.Dir, "server.log"),
		HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}},
	}
	if err := os.MkdirAll(s.Project, 0o755); err != nil {
		t.Fatal(err)
	}
	s.Args = []string{"dev", "--store", s.Store, "--dir", s.Project, "--space", "project:*", "--listen", "127.0.0.1:0", "--lease", with.Lease.String()}
	if with.Script != "" {
		file := filepath.Join(with.Dir, "script.yaml")
		if err := os.WriteFile(file, []byte(with.Script), 0o644); err != nil {
			t.Fatal(err)
		}
		s.Args = append(s.Args, "--model", "script:"+file)
	}
	s.Args = append(s.Args, with.Args...)
	t.Cleanup(func() {
		s.Kill()
		s.HTTP.CloseIdleConnections()
		if log, _ := os.ReadFile(s.Log); bytes.Contains(log, []byte("DATA RACE")) {
			t.Errorf("a data race in the server:\n%s", log)
		}
	})
	s.Start()
	return s
}

// Start starts the process (again) on the same store and a free port.
func (s *Server) Start() {
	s.T.Helper()
	if err := s.TryStart(); err != nil {
		s.T.Fatalf("start: %v\n%s", err, s.LogTail())
	}
}

// TryStart is Start for a server that may refuse to start.
func (s *Server) TryStart() error {
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(cmp.Or(s.Program, program), s.Args...)
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
func (s *Server) Kill() {
	if s.cmd != nil {
		s.cmd.Process.Kill()
		<-s.done
	}
}

// Signal sends the process a signal.
func (s *Server) Signal(sig os.Signal) {
	s.T.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.T.Fatalf("signal %v: %v", sig, err)
	}
}

// Wait waits until the process has ended by itself and returns its exit code.
func (s *Server) Wait(limit time.Duration) int {
	s.T.Helper()
	select {
	case <-s.done:
	case <-time.After(limit):
		s.T.Fatalf("the server still runs after %v\n%s", limit, s.LogTail())
	}
	return s.cmd.ProcessState.ExitCode()
}

// Terminate ends the process with SIGTERM; its exit code must be 0.
func (s *Server) Terminate() {
	s.T.Helper()
	s.Signal(syscall.SIGTERM)
	if code := s.Wait(30 * time.Second); code != 0 {
		s.T.Fatalf("exit code after SIGTERM: got %d, want 0\n%s", code, s.LogTail())
	}
}

// LogTail returns the end of the process's output.
func (s *Server) LogTail() string {
	log, _ := os.ReadFile(s.Log)
	return string(log[max(0, len(log)-4000):])
}

// Processes returns the ids of all processes whose working directory is the server's
// folder.
func (s *Server) Processes() (pids []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, dir := range dirs {
		if to, err := os.Readlink(dir); err == nil && strings.HasPrefix(to, s.Dir) {
			pids = append(pids, filepath.Base(filepath.Dir(dir)))
		}
	}
	return pids
}

// Eventually calls ok until it returns true, for at most limit.
func Eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
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

// Exists reports whether the file exists.
func Exists(path ...string) bool {
	_, err := os.Stat(filepath.Join(path...))
	return err == nil
}
