package sandbox

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"
)

var supervisor *Supervisor

func TestMain(m *testing.M) {
	supervisor = Main()
	if command := os.Getenv("SANDBOX_TEST_RUN"); command != "" {
		runAndHang(command)
	}
	goleak.VerifyTestMain(m)
}

// runAndHang is a program that runs a command and is to be killed meanwhile.
func runAndHang(command string) {
	s, err := Open(".", &Options{Supervisor: supervisor})
	if err != nil {
		panic(err)
	}
	s.Exec(context.Background(), command, nil)
	os.Exit(1)
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
