//go:build unix

package sandbox

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// startPlain starts a command in a process group of its own, without a
// supervisor.
func startPlain(sp spec) (*child, error) {
	cmd := &exec.Cmd{Path: sp.argv[0], Args: sp.argv, Dir: sp.dir, Env: sp.env, Stdout: sp.output, Stderr: sp.output}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	dieWithParent(cmd.SysProcAttr)

	started, ended := make(chan error), make(chan error, 1)
	go func() {
		// "Parent" is the thread that started the shell, so it must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	killing := &sync.WaitGroup{}
	killAll := func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		killMarked(sp.id)
	}
	kill := sync.OnceFunc(func() { killing.Go(killAll) })
	wait := func() (exit, error) {
		err := <-ended
		kill() // what it left in the background
		killing.Wait()
		return exitOf(cmd, err)
	}
	return &child{kill: kill, wait: wait}, nil
}

func exitOf(cmd *exec.Cmd, err error) (exit, error) {
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return exit{Code: -1}, err
	}
	end := exit{Code: cmd.ProcessState.ExitCode()}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		end.Signal = ws.Signal().String()
	}
	return end, nil
}
