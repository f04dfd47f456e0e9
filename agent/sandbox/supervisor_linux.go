package sandbox

import (
	"encoding/binary"
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
// The supervisor kills all its descendants when the shell has ended, when the
// control pipe ends, which happens on cancel and on the death of this process
// alike, and at the time that was last told on the control pipe (8 bytes, big
// endian: nanoseconds of CLOCK_MONOTONIC), if any was. It writes one line of JSON (exit) to the status pipe when it has no
// child left, and ends.
const (
	supervisorName = "thole-supervisor" // as argv[0]: os.Args of a supervisor are name, id, confinement (JSON), shell, -c, command
	controlFD      = 3
	statusFD       = 4
)

func supervisorMain() *Supervisor {
	harden()
	if len(os.Args) > 3 && os.Args[0] == supervisorName {
		supervise(os.Args[1], os.Args[2], os.Args[3:])
	}
	return &Supervisor{name: supervisorName}
}

// start starts a command, supervised if there is a supervisor.
func start(sp spec) (*child, error) {
	if sp.supervisor == nil {
		return startPlain(sp)
	}
	confined, err := json.Marshal(sp.confined)
	if err != nil {
		return nil, err
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
		Args:        append([]string{sp.supervisor.name, sp.id, string(confined)}, sp.argv...),
		Dir:         sp.dir,
		Env:         sp.env,
		Stdout:      sp.output,
		Stderr:      sp.output,
		ExtraFiles:  []*os.File{controlR, statusW},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // out of reach of the terminal's and the command's group signals
	}
	if sp.until != nil {
		_, err = controlW.Write(deadline(sp.until())) // a new pipe has room for it
	}
	if err == nil {
		err = cmd.Start()
	}
	controlR.Close()
	statusW.Close()
	if err != nil {
		return nil, errors.Join(err, controlW.Close(), statusR.Close())
	}
	ended := make(chan struct{})
	var telling sync.WaitGroup
	if sp.until != nil {
		telling.Go(func() { tellUntil(controlW, sp.until, ended) })
	}
	kill := sync.OnceFunc(func() {
		controlW.Close()
		// The supervisor is never killed: who would kill what is left below it?
		statusR.SetReadDeadline(time.Now().Add(killGrace))
	})
	wait := func() (exit, error) {
		defer telling.Wait()
		defer close(ended)
		defer controlW.Close() // first: it ends a write
		report, late := io.ReadAll(statusR)
		statusR.Close()
		if errors.Is(late, os.ErrDeadlineExceeded) {
			go cmd.Wait() // ends with the supervisor
			return exit{Code: -1}, fmt.Errorf("processes of the command were still there %v after they were killed; its supervisor goes on killing them", killGrace)
		}
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

// tellEvery is how often a supervisor is told a new end.
const tellEvery = time.Second

// tellUntil tells a supervisor whenever until has moved, until ended is closed.
func tellUntil(control *os.File, until func() time.Time, ended <-chan struct{}) {
	last := until()
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			if at := until(); !at.Equal(last) {
				last = at
				if _, err := control.Write(deadline(at)); err != nil {
					return // it is closed, or the supervisor is gone
				}
			}
		}
	}
}

// deadline is what a supervisor is told. The clock is read first: if this process is
// paused after that, the end comes rather too early.
func deadline(at time.Time) []byte {
	now := monotonic()
	return binary.BigEndian.AppendUint64(nil, uint64(now+time.Until(at)))
}

func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every Linux has it
	}
	return time.Duration(ts.Nano())
}

// overseen returns when the command must end: control ended (false), or the last
// time that it told has come (true).
func overseen(control io.Reader) (lapsed bool) {
	told := make(chan time.Duration)
	go func() {
		defer close(told)
		var at [8]byte
		for {
			if _, err := io.ReadFull(control, at[:]); err != nil {
				return
			}
			told <- time.Duration(binary.BigEndian.Uint64(at[:]))
		}
	}()
	var end <-chan time.Time
	for {
		select {
		case at, ok := <-told:
			if !ok {
				return false
			}
			end = time.After(at - monotonic())
		case <-end:
			return true
		}
	}
}

// supervise is the life of a supervisor.
func supervise(id, confined string, argv []string) {
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
	var c confinement
	if err := json.Unmarshal([]byte(confined), &c); err != nil {
		end.Error = err.Error()
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		end.Error = err.Error()
	} else if shell, err := startConfined(&c, argv); err != nil {
		end.Error = err.Error()
	} else {
		end = killAndReap(id, shell, control)
	}
	json.NewEncoder(status).Encode(end)
	os.Exit(0)
}

// startConfined starts the shell on a thread that it confines, and that stays for
// as long as this process: the shell's Pdeathsig is tied to it. The other threads
// are not confined, for they look for the shell's descendants in /proc.
// The first thread must not be confined: the kernel takes it for the process when
// it judges whether a signal from the command may reach the supervisor.
func startConfined(c *confinement, argv []string) (pid int, err error) {
	started := make(chan struct{})
	var confined func()
	confined = func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			go confined() // this thread is taken, so that one gets another
			select {}
		}
		if err = c.restrict(); err == nil {
			pid, err = startShell(argv)
		}
		close(started)
		select {}
	}
	go confined()
	<-started
	return pid, err
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
	over := make(chan bool, 2) // the shell ended, or overseen did
	gone := make(chan exit, 1)
	go func() { over <- overseen(control) }()
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
				over <- false
			}
		}
	}()
	lapsed := <-over
	killed := map[int]bool{}
	for pause := time.Duration(0); ; {
		// Stopped first, so that they fork no more while the others are killed.
		found, more := descendants(os.Getpid(), id), false
		for _, pid := range found {
			syscall.Kill(pid, syscall.SIGSTOP)
		}
		for _, pid := range found {
			syscall.Kill(pid, syscall.SIGKILL)
			more = more || !killed[pid]
			killed[pid] = true
		}
		// A command that forks on and on must not gain time. Those that were killed
		// before, and are not gone yet, cannot fork.
		if pause = min(2*pause+100*time.Microsecond, 10*time.Millisecond); more {
			pause = 0
		}
		select {
		case end := <-gone:
			end.Lapsed = lapsed
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
