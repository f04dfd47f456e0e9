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

// ErrMissing means that a program that a server needs is not installed.
var ErrMissing = errors.New("not installed")

// programs are the server's programs and the user who runs them.
type programs struct {
	bin  string              // directory of PostgreSQL's programs
	user *syscall.Credential // nil: the current user
}

// findPrograms searches for PostgreSQL in the directories of Debian, Red Hat and
// Homebrew, which are not in the PATH, and uses the last version it finds.
func findPrograms() (programs, error) {
	var p programs
	for _, pattern := range []string{"/opt/homebrew/opt/postgresql@*/bin", "/usr/pgsql-*/bin", "/usr/lib/postgresql/*/bin"} {
		found, err := filepath.Glob(pattern + "/initdb")
		if err != nil {
			panic(err) // the patterns are valid
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

// unprivileged returns the user who runs the servers if this process is root, since
// they refuse to run as root.
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

// own makes the user who runs the servers the owner of a file.
func (p *programs) own(path string) error {
	if p.user == nil {
		return nil
	}
	return os.Chown(path, int(p.user.Uid), int(p.user.Gid))
}

// command returns a command that runs a program in dir as that user. It has its own
// process group, so that an interrupt from the terminal does not reach it.
func (p *programs) command(dir, name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = dir
	c.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: p.user, Setpgid: true}
	return c
}

// freePort returns a port that nobody listens on. It is below the ports that the system
// uses for outgoing connections, so that it stays free while a server restarts.
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
