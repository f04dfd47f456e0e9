package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/thole-dev/thole"
)

// ExecOptions change [Sandbox.Exec]. The zero value is the default.
type ExecOptions struct {
	Dir       string            // below the sandbox; empty means the sandbox itself
	Env       []string          // "KEY=value", on top of the sandbox's environment
	Timeout   time.Duration     // zero means none
	MaxOutput int               // bytes of Result.Output kept; zero means 64 KiB
	Output    func(text []byte) // called in order with all output as it comes, as whole UTF-8; must not block nor keep text
	// Until, if set, tells until when the command may run. It is asked again while
	// the command does, and may say later each time. The command is stopped then, by
	// its supervisor even if this process does not answer (it is paused, or hangs).
	Until func() time.Time
}

// Result is how a command ended.
type Result struct {
	Began    bool          // the command was started; false only together with an error
	Stopped  bool          // it was ended because ctx ended, or its time or its right to run was over
	ExitCode int           // 0..255; -1 if a signal ended it
	Signal   string        // the signal's name, such as "killed"; empty if it exited
	Output   string        // stdout and stderr as they came, valid UTF-8; the middle is cut at MaxOutput
	Cut      int64         // bytes left out of Output
	Duration time.Duration // until the last process was gone
}

// Failure says how a command failed that ended by itself; nil for exit status 0.
func (r *Result) Failure() error {
	switch {
	case r.Signal != "":
		return fmt.Errorf("the command was ended by the signal %s", r.Signal)
	case r.ExitCode != 0:
		return fmt.Errorf("exit status %d", r.ExitCode)
	}
	return nil
}

// ErrTimeout is the cause when a command ran longer than its Timeout.
var ErrTimeout = errors.New("the command ran longer than its timeout")

// ErrLapsed is the cause when a command was stopped at the time that Until told.
var ErrLapsed = errors.New("the command lost its right to run: its worker did not renew its lease in time")

// killGrace bounds how long a killed tree may take to disappear before Exec
// gives up on it; a process in uninterruptible sleep can take forever.
const killGrace = 5 * time.Second

// maxCommand is what the kernel takes as one argument.
const maxCommand = 128<<10 - 1

// Exec runs a shell command (bash, or sh where there is none) in the sandbox
// and returns when it and every process that it started are gone: those it
// left in the background are killed when it ends, all are killed when ctx ends.
// Input is empty.
//
// A command that ran is no error, whatever its exit code. Errors: one that
// wraps context.Cause(ctx), [ErrTimeout] or [ErrLapsed], if it was stopped, with the
// output so far; thole.ErrInvalid and thole.ErrNotFound for a bad Dir;
// thole.ErrTooLarge for a command over 128 KiB.
//
// With a [Supervisor] (Linux) this holds even for processes that fork twice,
// call setsid and close their files, and when this process is killed with
// SIGKILL: the supervisor is a process of its own that adopts every orphan of
// the command (PR_SET_CHILD_SUBREAPER) and dies only after the last of them.
// What remains: processes that it may not kill (set-user-id programs), work
// handed to a daemon that was there before (docker, at, systemd-run), and a
// command that kills its supervisor while this process is being killed too.
//
// The supervisor also confines the command: it gains no privileges, a command of
// root keeps few capabilities, and where the kernel has Landlock
// it reaches what [Options] say. [Sandbox.Confined] tells.
//
// Without, the command's process group is killed, and on Linux every process
// whose environment shows that it came from the command. What remains: those
// that cleaned their environment, and (if this process is killed) all but the
// shell; elsewhere, all that left the process group.
func (s *Sandbox) Exec(ctx context.Context, command string, o *ExecOptions) (Result, error) {
	opts := ExecOptions{}
	if o != nil {
		opts = *o
	}
	if ctx.Err() != nil {
		return Result{ExitCode: -1}, fmt.Errorf("exec: %w", context.Cause(ctx))
	}
	if len(command) > maxCommand {
		return Result{ExitCode: -1}, fmt.Errorf("exec: %w: the command has %d bytes, the limit is %d", thole.ErrTooLarge, len(command), maxCommand)
	}
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.Timeout, fmt.Errorf("%w of %v", ErrTimeout, opts.Timeout))
		defer cancel()
	}
	spec, err := s.command(command, opts)
	if err != nil {
		return Result{ExitCode: -1}, err
	}
	if opts.Until != nil {
		spec.until = opts.Until
		var stop func()
		ctx, stop = expiring(ctx, opts.Until)
		defer stop()
	}
	return run(ctx, spec, newCapture(opts.MaxOutput, opts.Output))
}

// spec is a command made ready.
type spec struct {
	argv, env  []string
	dir        string
	id         string // marks its processes: each has THOLE_EXEC=id in its environment
	supervisor *Supervisor
	confined   confinement
	until      func() time.Time // nil: no end
	output     *os.File
}

// expiring returns a context that ends, with the cause ErrLapsed, when until has
// passed. stop ends it and waits for what watches it.
func expiring(ctx context.Context, until func() time.Time) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			left := time.Until(until())
			if left <= 0 {
				cancel(ErrLapsed)
				return
			}
			select {
			case <-time.After(left):
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cancel(nil); <-watched }
}

func (s *Sandbox) command(command string, o ExecOptions) (spec, error) {
	dir := "."
	if o.Dir != "" {
		var err error
		if dir, err = Clean(o.Dir); err != nil {
			return spec{}, err
		}
	}
	in, err := s.root.OpenRoot(dir) // refuses links that leave the sandbox
	if err != nil {
		return spec{}, fail("exec in", dir, err)
	}
	in.Close()
	shell, err := exec.LookPath("bash")
	if err != nil {
		if shell, err = exec.LookPath("sh"); err != nil {
			return spec{}, fmt.Errorf("exec: no shell: %w", err)
		}
	}
	id := rand.Text()
	env := append(append([]string{}, s.o.Env...), o.Env...)
	return spec{
		argv:       []string{shell, "-c", command},
		env:        append(env, marker+id),
		dir:        filepath.Join(s.dir, filepath.FromSlash(dir)),
		id:         id,
		supervisor: s.o.Supervisor,
		confined:   s.confined,
	}, nil
}

// child is a started command. kill may be called at any time and repeatedly;
// wait is called once, returns when all processes are gone, and fails if that
// is not certain.
type child struct {
	kill func()
	wait func() (exit, error)
}

// exit is how a command's shell ended; also what the supervisor reports.
type exit struct {
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"`
	Error  string `json:"error,omitempty"`  // it could not be started
	Lapsed bool   `json:"lapsed,omitempty"` // it was killed because Until had passed
}

func run(ctx context.Context, sp spec, out *capture) (Result, error) {
	begin := time.Now()
	r, w, err := os.Pipe()
	if err != nil {
		return Result{ExitCode: -1}, fmt.Errorf("exec: %w", err)
	}
	defer r.Close()
	sp.output = w
	c, err := start(sp)
	w.Close()
	if err != nil {
		return Result{ExitCode: -1}, fmt.Errorf("exec: %w", err)
	}
	copied := make(chan struct{})
	go func() { defer close(copied); out.readFrom(r) }()
	stop := context.AfterFunc(ctx, c.kill)
	end, err := c.wait()
	stopped, cause := !stop(), error(nil)
	switch {
	case stopped:
		cause = context.Cause(ctx)
	case end.Lapsed:
		stopped, cause = true, ErrLapsed
	}

	// The last process gone, the pipe ends; unless one escaped with it.
	timer := time.AfterFunc(killGrace, func() { r.Close() })
	<-copied
	timer.Stop()

	res := Result{Began: end.Error == "", Stopped: stopped, ExitCode: end.Code, Signal: end.Signal, Duration: time.Since(begin)}
	res.Output, res.Cut = out.text()
	switch {
	case stopped:
		return res, errors.Join(fmt.Errorf("exec: %w", cause), err)
	case err != nil:
		return res, fmt.Errorf("exec: %w", err)
	case end.Error != "":
		return res, fmt.Errorf("exec: cannot start the command: %s", end.Error)
	}
	return res, nil
}

// marker begins the environment variable that a command's processes inherit.
const marker = "THOLE_EXEC="
