package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A supervised command:
//
//	this process ── control pipe ──▶ supervisor ── shell ── …
//	             ◀── status pipe ───     ▲   adopts orphans
//	             ◀── output pipe ── shell and all it starts
//
// The supervisor kills all its descendants when the shell has ended or the
// control pipe ends, which happens on cancel and on the death of this process
// alike. It writes one line of JSON (exit) to the status pipe when it has no
// child left, and ends.
const (
	supervisorName = "thole-supervisor" // as argv[0]: os.Args of a supervisor are name, id, shell, -c, command
	controlFD      = 3
	statusFD       = 4
)

func supervisorMain() *Supervisor {
	if len(os.Args) > 2 && os.Args[0] == supervisorName {
		supervise(os.Args[1], os.Args[2:])
	}
	return &Supervisor{name: supervisorName}
}

// start starts a command, supervised if there is a supervisor.
func start(sp spec) (*child, error) {
	if sp.supervisor == nil {
		return startPlain(sp)
	}
	controlR, controlW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, controlR.Close(), controlW.Close())
	}
	cmd := &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        append([]string{sp.supervisor.name, sp.id}, sp.argv...),
		Dir:         sp.dir,
		Env:         sp.env,
		Stdout:      sp.output,
		Stderr:      sp.output,
		ExtraFiles:  []*os.File{controlR, statusW},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // out of reach of the terminal's and the command's group signals
	}
	err = cmd.Start()
	controlR.Close()
	statusW.Close()
	if err != nil {
		return nil, errors.Join(err, controlW.Close(), statusR.Close())
	}
	kill := sync.OnceFunc(func() {
		controlW.Close()
		time.AfterFunc(killGrace, func() { cmd.Process.Kill() }) // harmless once it was waited for
	})
	wait := func() (exit, error) {
		defer controlW.Close()
		report, _ := io.ReadAll(statusR)
		statusR.Close()
		err := cmd.Wait()
		var end exit
		if json.Unmarshal(report, &end) == nil {
			return end, nil
		}
		killMarked(sp.id)
		return exit{Code: -1}, fmt.Errorf("the command's supervisor did not finish (%v); its processes were killed as far as they could be found", err)
	}
	return &child{kill: kill, wait: wait}, nil
}

// supervise is the life of a supervisor.
func supervise(id string, argv []string) {
	runtime.LockOSThread() // the shell's Pdeathsig is tied to the thread that starts it
	syscall.CloseOnExec(controlFD)
	syscall.CloseOnExec(statusFD)
	control, status := os.NewFile(controlFD, "control"), os.NewFile(statusFD, "status")
	if fi, err := control.Stat(); err != nil || fi.Mode()&os.ModeNamedPipe == 0 {
		fmt.Fprintln(os.Stderr, supervisorName+" is started by the sandbox only")
		os.Exit(2)
	}
	// Only its parent may end it. Notify, not Ignore: that would be inherited.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE)

	end := exit{Code: -1}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		end.Error = err.Error()
	} else if shell, err := startShell(argv); err != nil {
		end.Error = err.Error()
	} else {
		end = killAndReap(id, shell, control)
	}
	json.NewEncoder(status).Encode(end)
	os.Exit(0)
}

func startShell(argv []string) (pid int, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	return syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{null.Fd(), 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
}

// killAndReap waits for the shell or the end of control, then kills until no
// child is left. "No child" (ECHILD) means no descendant: an orphan becomes a
// child of its nearest subreaper before its parent can be reaped.
func killAndReap(id string, shell int, control io.Reader) exit {
	over := make(chan struct{}, 2) // the shell ended, control ended
	gone := make(chan exit, 1)
	go func() { io.Copy(io.Discard, control); over <- struct{}{} }()
	go func() {
		end := exit{Code: -1}
		for {
			var ws syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &ws, 0, nil)
			switch {
			case err == syscall.EINTR:
			case err != nil:
				gone <- end
				return
			case pid == shell:
				if end.Code = ws.ExitStatus(); ws.Signaled() {
					end.Signal = ws.Signal().String()
				}
				over <- struct{}{}
			}
		}
	}()
	<-over
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		for _, pid := range descendants(os.Getpid(), id) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		select {
		case end := <-gone:
			return end
		case <-time.After(pause):
		}
	}
}

// descendants returns the processes below pid. The kernel does not freeze them
// meanwhile, so some may be missing; its callers repeat.
func descendants(pid int, id string) []int {
	var found []int
	queue := []int{pid}
	for len(queue) > 0 {
		dir := fmt.Sprintf("/proc/%d/task", queue[0])
		queue = queue[1:]
		tasks, _ := os.ReadDir(dir)
		for _, t := range tasks {
			list, err := os.ReadFile(dir + "/" + t.Name() + "/children")
			if err != nil && len(found) == 0 && t.Name() == fmt.Sprint(pid) {
				return marked(id) // a kernel without CONFIG_PROC_CHILDREN
			}
			for _, field := range strings.Fields(string(list)) {
				var child int
				fmt.Sscan(field, &child)
				found, queue = append(found, child), append(queue, child)
			}
		}
	}
	return found
}
