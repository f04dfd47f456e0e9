package pgtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// ErrMissing says that a program which a server needs is not installed.
var ErrMissing = errors.New("not installed")

// programs are the server's programs and the user who runs them.
type programs struct {
	bin  string              // folder of PostgreSQL's
	user *syscall.Credential // nil: this one
}

// findPrograms looks for PostgreSQL where Debian, Red Hat and Homebrew keep its
// versions, which are not in the PATH; the last one found counts.
func findPrograms() (programs, error) {
	var p programs
	for _, pattern := range []string{"/opt/homebrew/opt/postgresql@*/bin", "/usr/pgsql-*/bin", "/usr/lib/postgresql/*/bin"} {
		found, err := filepath.Glob(pattern + "/initdb")
		if err != nil {
			panic(err) // the patterns are fine
		}
		if len(found) > 0 {
			p.bin = filepath.Dir(found[len(found)-1])
		}
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		p.bin = filepath.Dir(path)
	}
	if p.bin == "" {
		return p, fmt.Errorf("PostgreSQL is %w: apt-get install postgresql", ErrMissing)
	}
	var err error
	p.user, err = unprivileged()
	return p, err
}

// unprivileged returns who runs the servers when this process is root, under
// which they refuse to run.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

func (p *programs) postgres(name string) string { return filepath.Join(p.bin, name) }

// own gives a file to the user who runs the servers.
func (p *programs) own(path string) error {
	if p.user == nil {
		return nil
	}
	return os.Chown(path, int(p.user.Uid), int(p.user.Gid))
}

// command is a program in dir, run by that user. It is in a process group of
// its own, so that an interrupt from the terminal does not reach it.
func (p *programs) command(dir, name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: p.user, Setpgid: true}
	return c
}

// freePort returns a port that nobody listens on. It is below those that the
// system gives to outgoing connections, so that it stays free while a server
// restarts.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("no free port: %w", last)
}
