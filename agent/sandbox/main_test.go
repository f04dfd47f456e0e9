package sandbox

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var supervisor *Supervisor

func TestMain(m *testing.M) {
	supervisor = Main()
	if pid := os.Getenv("SANDBOX_TEST_PROBE"); pid != "" {
		probe(pid)
	}
	if command := os.Getenv("SANDBOX_TEST_TELL"); command != "" {
		runAndTell(command)
	}
	if command := os.Getenv("SANDBOX_TEST_RUN"); command != "" {
		runAndHang(command)
	}
	goleak.VerifyTestMain(m)
}

// runAndHang is a program that runs a command and is killed meanwhile.
func runAndHang(command string) {
	s, err := Open(".", &Options{Supervisor: supervisor})
	if err != nil {
		panic(err)
	}
	o := &ExecOptions{}
	if lease, err := time.ParseDuration(os.Getenv("SANDBOX_TEST_LEASE")); err == nil {
		o.Until = func() time.Time { return time.Now().Add(lease) }
	}
	s.Exec(context.Background(), command, o)
	os.Exit(1)
}

// runAndTell is a program that runs a command, and prints what the command may reach
// and its result.
func runAndTell(command string) {
	s, err := Open(".", &Options{Supervisor: supervisor})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Confined())
	res, err := s.Exec(context.Background(), command, nil)
	fmt.Printf("began %v: %v: %s", res.Began, err, res.Output)
	s.Close()
	os.Exit(0)
}

func open(t testing.TB, o *Options) *Sandbox {
	t.Helper()
	s, err := Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func write(t testing.TB, s *Sandbox, name, content string) {
	t.Helper()
	if err := os.WriteFile(s.Dir()+"/"+name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t testing.TB, s *Sandbox, name, want string) {
	t.Helper()
	got, err := os.ReadFile(s.Dir() + "/" + name)
	if err != nil || string(got) != want {
		t.Errorf("%s = %q, %v; want %q", name, got, err, want)
	}
}

func wantNoLeftovers(t testing.TB, s *Sandbox) {
	t.Helper()
	if left, err := s.Leftovers(); err != nil || len(left) > 0 {
		t.Errorf("Leftovers = %v, %v; want none", left, err)
	}
}
