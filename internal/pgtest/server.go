// Package pgtest starts private PostgreSQL servers, and poolers in front of them,
// for tests and measurements: in temporary directories, on free loopback ports.
// Servers that tests may kill are as durable as real ones. It uses the programs of
// Debian's packages postgresql and pgbouncer (or those in the PATH), but not the
// servers that these packages set up.
//
// A server ends with the process that started it, even if that crashes.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// The superuser of every server and of its poolers.
const (
	User     = "thole"
	Password = "thole"
)

// verifier is the password as PostgreSQL stores it, with one iteration of the hash
// instead of 4,096, which would take half of the time of connecting.
const verifier = "SCRAM-SHA-256$1:c2l4dGVlbiBieXRlcyBzbA==$xM/lvxdSxcOTKdTZF47Qr2ctrfMGeCIXa7dQtnDZYvI=:1Yr3C8J+jemEGTLHf1tYwreD0H+5/VecLS4spvSjfiw="

// patience is how long a server may take to start or to stop.
const patience = 60 * time.Second

// Server is a private PostgreSQL server. Its methods are safe for concurrent use.
type Server struct {
	programs programs
	options  []string // of the postgres program
	dir      string   // holds all files; Close removes it
	port     int

	mu        sync.Mutex
	postgres  *exec.Cmd // nil: it does not run
	pgbouncer *pooler   // nil until the first Pool
	databases int       // number of databases created so far
	empty     []string  // DSNs of empty databases for reuse
	pooled    []string  // DSNs of databases that the pooler knows

	guard *exec.Cmd // outlives this process to clean up
	held  io.Closer // what the guard waits for
}

// Launch starts a server that is as durable as a real one. It returns ErrMissing if the
// programs are not installed. Most tests should use [Start].
func Launch() (*Server, error) { return launch() }

func launch(options ...string) (*Server, error) {
	p, err := findPrograms()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	s := &Server{programs: p, options: options, dir: dir}
	if err := s.launch(); err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: %w", err), s.Close())
	}
	return s, nil
}

func (s *Server) launch() error {
	if err := s.programs.own(s.dir); err != nil {
		return err
	}
	if err := s.watch(); err != nil {
		return err
	}
	password := filepath.Join(s.dir, "password")
	if err := s.write(password, verifier+"\n"); err != nil {
		return err
	}
	initdb := s.programs.command(s.dir, s.programs.postgres("initdb"), "-D", s.data(), "-U", User, "--pwfile", password,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	var err error
	for range 3 { // another process may take the port meanwhile
		if s.port, err = freePort(); err != nil {
			return err
		}
		if err = s.start(); err == nil {
			return nil
		}
	}
	return err
}

// watch starts the guard, which cleans up when this process ends or closes held.
func (s *Server) watch() error {
	const script = `
cat >/dev/null
"$1" -D "$2/data" -m immediate stop
[ ! -f "$2/pgbouncer.pid" ] || kill "$(cat "$2/pgbouncer.pid")"
cd / && rm -rf "$2"`
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	s.guard = s.programs.command(s.dir, "/bin/sh", "-c", script, "sh", s.programs.postgres("pg_ctl"), s.dir)
	s.guard.Stdin = r
	if err := s.guard.Start(); err != nil {
		s.guard = nil
		return errors.Join(fmt.Errorf("guard: %w", err), w.Close())
	}
	s.held = w
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) write(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return s.programs.own(path)
}

// start starts the server on its port and waits until it accepts connections.
func (s *Server) start() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "postgres.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.programs.command(s.dir, s.programs.postgres("postgres"), append(s.options, "-D", s.data(), "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=300")...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.postgres = cmd
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		status, _ := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
		lines := strings.Split(string(status), "\n") // the first is its pid, the eighth its state
		if len(lines) > 7 && lines[0] == strconv.Itoa(cmd.Process.Pid) && strings.TrimSpace(lines[7]) == "ready" {
			return nil
		}
		if s.exited() || time.Now().After(end) {
			s.signal(syscall.SIGKILL)
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("postgres did not start: %s", text)
		}
	}
}

// exited reports whether the process has ended, without waiting for it.
func (s *Server) exited() bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.postgres.Process.Pid))
	return err == nil && strings.Contains(string(state), ") Z ")
}

// signal sends sig to the server, if it runs, and waits until it has ended.
func (s *Server) signal(sig syscall.Signal) error {
	if s.postgres == nil {
		return nil
	}
	if err := s.postgres.Process.Signal(sig); err != nil {
		return err
	}
	s.postgres.Wait() // its status is that of a stopped process
	s.postgres = nil
	return nil
}

// Stop stops the server as an administrator does: it closes connections and keeps what
// was acknowledged. It does nothing if the server does not run.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signal(syscall.SIGINT) // "fast shutdown"
}

// Kill ends the server and all its connections at once, like a crash: what the server
// has not written is lost.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.postgres == nil {
		return nil
	}
	// Without this, its connection processes could still answer for a moment.
	pid := s.postgres.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	err := s.signal(syscall.SIGKILL)
	for _, child := range strings.Fields(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			syscall.Kill(n, syscall.SIGKILL)
		}
	}
	return err
}

// Restart starts the server on the same port and data, after stopping it if it runs.
// It returns when the server accepts connections.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.signal(syscall.SIGINT); err != nil {
		return err
	}
	// Children of a killed server may hold its shared memory for a moment.
	var err error
	for range 50 {
		if err = s.start(); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// Close stops the server and its pooler, and removes their files. It is idempotent.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.signal(syscall.SIGINT)
	if s.guard == nil {
		return errors.Join(err, os.RemoveAll(s.dir))
	}
	s.held.Close()
	s.guard.Wait() // pg_ctl complains that nothing runs
	s.guard = nil
	if s.pgbouncer != nil {
		s.pgbouncer.cmd.Wait()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Addr returns the server's address.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Create creates an empty database and returns its DSN.
func (s *Server) Create(ctx context.Context) (dsn string, err error) {
	s.mu.Lock()
	s.databases++
	name := fmt.Sprintf("test%d", s.databases)
	s.mu.Unlock()
	return dsnOf(s.Addr(), name), s.exec(ctx, "CREATE DATABASE "+name)
}

// Drop removes a database that Create made, and closes its connections. It does
// nothing if the server does not run.
func (s *Server) Drop(ctx context.Context, dsn string) error {
	s.mu.Lock()
	stopped := s.postgres == nil
	s.mu.Unlock()
	if stopped {
		return nil
	}
	return s.exec(ctx, "DROP DATABASE IF EXISTS "+nameOf(dsn)+" WITH (FORCE)")
}

// take returns the DSN of an emptied database, or of a new one.
func (s *Server) take(ctx context.Context) (dsn string, err error) {
	s.mu.Lock()
	n := len(s.empty)
	if n == 0 {
		s.mu.Unlock()
		return s.Create(ctx)
	}
	defer s.mu.Unlock()
	dsn, s.empty = s.empty[n-1], s.empty[:n-1]
	return dsn, nil
}

// clear terminates the other connections to the database, waits until they have ended
// and removes all content.
const clear = `
DO $$
DECLARE name text;
BEGIN
	WHILE (SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()) > 0 LOOP
		PERFORM pg_sleep(0.002), pg_stat_clear_snapshot();
	END LOOP;
	FOR name IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$)' LOOP
		EXECUTE format('DROP SCHEMA %I CASCADE', name);
	END LOOP;
	CREATE SCHEMA public;
	EXECUTE format('ALTER DATABASE %I RESET ALL', current_database());
END $$`

// giveBack empties a database of take for reuse. It does nothing if the server does not
// run.
func (s *Server) giveBack(ctx context.Context, dsn string) error {
	s.mu.Lock()
	stopped, pooled := s.postgres == nil, slices.Contains(s.pooled, dsn)
	s.mu.Unlock()
	if stopped {
		return nil
	}
	if pooled {
		if err := s.reconnect(ctx, dsn); err != nil {
			return err
		}
	}
	if err := execute(ctx, dsn, clear); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.empty = append(s.empty, dsn)
	return nil
}

func (s *Server) exec(ctx context.Context, sql string) error {
	return execute(ctx, dsnOf(s.Addr(), "postgres"), sql)
}

func execute(ctx context.Context, dsn, sql string) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, sql)
	return err
}

func dsnOf(addr, database string) string {
	return (&url.URL{Scheme: "postgres", User: url.UserPassword(User, Password), Host: addr, Path: "/" + database}).String()
}

// nameOf returns the name of the database behind one of the server's DSNs.
func nameOf(dsn string) string { return dsn[strings.LastIndexByte(dsn, '/')+1:] }
