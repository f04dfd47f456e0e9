package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A paused program cannot stop its command, and another worker may be doing the same
// work already.
func TestACommandEndsWithTheLeaseOfAProgramThatIsPaused(t *testing.T) {
	command, mark, n := escapist()
	program := exec.Command("/proc/self/exe")
	program.Dir = t.TempDir()
	program.Env = append(os.Environ(), "SANDBOX_TEST_RUN="+command, "SANDBOX_TEST_LEASE=1500ms")
	must(t, program.Start())
	defer program.Wait()
	defer program.Process.Kill()
	await(t, mark, n)
	<-time.After(2 * time.Second) // it is renewed as long as the program works
	await(t, mark, n)
	must(t, program.Process.Signal(syscall.SIGSTOP))
	begin := time.Now()
	await(t, mark, 0)
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("the command went on for %v after its program was paused, with a lease of 1.5 s", took)
	}
}

func TestACommandEndsWhenItsRightToRunDoes(t *testing.T) {
	both(t, func(t *testing.T, s *Sandbox) {
		command, mark, _ := escapist()
		end := time.Now().Add(time.Second)
		res, err := s.Exec(t.Context(), command, &ExecOptions{Until: func() time.Time { return end }})
		if !errors.Is(err, ErrLapsed) || !res.Stopped || !res.Began {
			t.Errorf("Exec = %+v, %v; want that it was stopped with ErrLapsed", res, err)
		}
		await(t, mark, 0)
		res, err = s.Exec(t.Context(), "echo ran", &ExecOptions{Until: func() time.Time { return time.Now().Add(time.Hour) }})
		if err != nil || res.Output != "ran\n" || res.Stopped {
			t.Errorf("Exec with a right to run = %+v, %v", res, err)
		}
	})
}
