package pgtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// pooler is a pgbouncer in front of a server, in transaction mode: a client connection
// has the same server connection only during a transaction.
type pooler struct {
	cmd  *exec.Cmd
	addr string
}

// Pool returns a DSN for the same database through pgbouncer in transaction mode. The
// first call starts pgbouncer, which ends with the server.
func (s *Server) Pool(dsn string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", fmt.Errorf("pgtest: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pgbouncer == nil {
		if s.pgbouncer, err = s.startPooler(); err != nil {
			return "", fmt.Errorf("pgtest: pgbouncer: %w", err)
		}
	}
	s.pooled = append(s.pooled, dsn)
	u.Host = s.pgbouncer.addr
	return u.String(), nil
}

const poolerConfig = `[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
pidfile = %s/pgbouncer.pid
logfile = %s/pgbouncer.log
auth_type = scram-sha-256
server_login_retry = 1
auth_file = %s/users
admin_users = %s
pool_mode = transaction
default_pool_size = 20
max_client_conn = 1000
`

func (s *Server) startPooler() (*pooler, error) {
	path, err := findPooler()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(s.dir, "pgbouncer.ini")
	if err := s.write(config, fmt.Sprintf(poolerConfig, s.port, port, s.dir, s.dir, s.dir, User)); err != nil {
		return nil, err
	}
	if err := s.write(filepath.Join(s.dir, "users"), fmt.Sprintf("%q %q\n", User, verifier)); err != nil {
		return nil, err
	}
	p := &pooler{cmd: s.programs.command(s.dir, path, "-q", config), addr: "127.0.0.1:" + strconv.Itoa(port)}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", p.addr)
		if err == nil {
			return p, c.Close()
		}
		if time.Now().After(end) {
			p.cmd.Process.Kill()
			p.cmd.Wait()
			return nil, err
		}
	}
}

// reconnect makes the pooler replace all its connections to the database of dsn.
func (s *Server) reconnect(ctx context.Context, dsn string) error {
	config, err := pgx.ParseConfig(dsnOf(s.pgbouncer.addr, "pgbouncer"))
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // pgbouncer's console supports no other
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, "RECONNECT "+nameOf(dsn))
	return err
}

// findPooler searches for pgbouncer in the PATH and in Debian's directory.
func findPooler() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("pgbouncer is %w: apt-get install pgbouncer", ErrMissing)
}
