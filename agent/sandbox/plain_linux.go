package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// dieWithParent makes the shell die with this process; what it started does
// not, that takes a supervisor.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// killMarked kills all processes of a command until none is found, three times in
// a row: one that is about to be another program shows no environment.
func killMarked(id string) {
	none := 0
	for deadline := time.Now().Add(killGrace); none < 3 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		pids := marked(id)
		if none++; len(pids) > 0 {
			none = 0
		}
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// marked returns the living processes with a command's mark in the environment
// they were started with. That of a zombie is empty.
func marked(id string) []int {
	var found []int
	procs, _ := os.ReadDir("/proc")
	for _, p := range procs {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + p.Name() + "/environ")
		if err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+marker+id+"\x00")) {
			found = append(found, pid)
		}
	}
	return found
}
