package sandbox

import (
	"errors"
	"os/exec"
)

// startPlain starts a command. Only the shell itself is killed with it.
func startPlain(sp spec) (*child, error) {
	cmd := &exec.Cmd{Path: sp.argv[0], Args: sp.argv, Dir: sp.dir, Env: sp.env, Stdout: sp.output, Stderr: sp.output}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	wait := func() (exit, error) {
		var failed *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &failed) {
			return exit{Code: -1}, err
		}
		return exit{Code: cmd.ProcessState.ExitCode()}, nil
	}
	return &child{kill: func() { cmd.Process.Kill() }, wait: wait}, nil
}
