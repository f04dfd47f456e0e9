// Package pgstore keeps spaces in a PostgreSQL database, version 15 or later,
// which any number of processes may share.
//
// A batch of commits is one call of one function in the database, and therefore one
// transaction that needs no further message from the client. It locks the heads of its
// spaces, so that seqs are dense and in order with any number of writers. People can
// read the views (see migrations) with psql: try "SELECT * FROM thole.events".
package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/thole-dev/thole/journal"
)

// minServer is the oldest supported major version of the server.
const minServer = 15

// Store is a [journal.Backend] in a PostgreSQL database.
type Store struct {
	*config
	pool       *pgxpool.Pool
	durability journal.Durability
	wire       *wire // nil: no hints or broadcasts

	mu      sync.Mutex
	running sync.WaitGroup // calls; incremented under mu while not closing
	closing bool
	closed  chan struct{} // closed when closing is set
	over    sync.Once
}

var (
	_ journal.Backend = (*Store)(nil)
)

// Open opens the store that a DSN postgres://USER:PASSWORD@HOST:PORT/DATABASE
// names. It creates what is missing in the database and migrates an older store. A
// query in the DSN may have the parameters of libpq and pgxpool
// (pool_max_conns, default 16; sslmode, connect_timeout, …) and these:
//
//	schema=NAME    the PostgreSQL schema that holds the store; default thole
//	timeout=30s    how long a statement may take
//	direct=DSN     the same database without the transaction pooler, for hints and
//	               broadcasts. Without it, a store behind a pooler has neither and
//	               sees commits of other processes when it polls the heads
//	hints=off      no hints or broadcasts
//	pooler=on|off  whether there is a transaction pooler; default: detected
//
// A DSN names one host, whose name or address must follow the primary; several hosts
// are ErrInvalid. A rejected login or missing privileges are ErrInvalid, a missing
// database is ErrNotFound. A store of a newer version or a server that is too old or
// unsuitable is errors.ErrUnsupported. A server that cannot be reached is
// ErrUnavailable. The errors say what to do.
func Open(ctx context.Context, dsn string) (*Store, error) {
	c, err := parse(dsn)
	if err != nil {
		return nil, err
	}
	s := &Store{config: c, closed: make(chan struct{})}
	if err := s.open(ctx); err != nil {
		return nil, c.explain(ctx, err)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := s.survey(ctx, conn); err != nil {
		return err
	}
	if _, err := s.migrate(ctx, conn, migrations, false); err != nil {
		return err
	}
	cc := s.config.pool.ConnConfig
	if s.pooler == "on" {
		// Prepared statements and settings belong to one connection of the server,
		// which a pooler does not keep.
		cc.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	} else {
		cc.RuntimeParams["statement_timeout"] = strconv.FormatInt(s.timeout.Milliseconds(), 10)
	}
	s.config.pool.ShouldPing = s.isDead
	if s.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), s.config.pool); err != nil {
		return err
	}
	if s.config.hints != "off" && (s.direct != nil || s.pooler == "off") {
		if s.wire, err = openWire(ctx, s); err != nil {
			s.pool.Close()
			return fmt.Errorf("connection for hints and broadcasts: %w", err)
		}
	}
	return nil
}

// dial opens a connection outside of the pool. It also works through a pooler.
func (c *config) dial(ctx context.Context) (*pgx.Conn, error) {
	cc := c.pool.ConnConfig.Copy()
	cc.DefaultQueryExecMode = pgx.QueryExecModeExec
	return pgx.ConnectConfig(ctx, cc)
}

// survey queries the server's settings, which determine the durability and whether
// there is a pooler. It returns errors.ErrUnsupported for an unsuitable server.
func (s *Store) survey(ctx context.Context, conn *pgx.Conn) error {
	var version, pid int
	var encoding, isolation, fsync string
	var standby bool
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, pg_backend_pid(), current_setting('server_encoding'),
		current_setting('default_transaction_isolation'), current_setting('fsync'), pg_is_in_recovery()`).
		Scan(&version, &pid, &encoding, &isolation, &fsync, &standby)
	switch {
	case err != nil:
		return err
	case version/10000 < minServer:
		return fmt.Errorf("%w: %s is of version %d, at least %d is needed", errors.ErrUnsupported, s.name(), version/10000, minServer)
	case encoding != "UTF8":
		return fmt.Errorf("%w: %s has encoding %s; create the database with ENCODING 'UTF8'", errors.ErrUnsupported, s.name(), encoding)
	case isolation != "read committed":
		return fmt.Errorf("%w: %s has default_transaction_isolation %q, which makes concurrent commits fail; set it to 'read committed' for this role",
			errors.ErrUnsupported, s.name(), isolation)
	case standby:
		return fmt.Errorf("%w: %s is a standby, which cannot be written to; name the primary", errors.ErrUnsupported, s.name())
	}
	s.durability = journal.Sync // commits turn synchronous_commit on
	if fsync != "on" {
		s.durability = journal.Relaxed
	}
	if s.pooler == "" {
		// A pooler gives its clients invented process ids.
		s.pooler = "off"
		if pid != int(conn.PgConn().PID()) {
			s.pooler = "on"
		}
	}
	return nil
}

// Capabilities implements [journal.Backend].
func (s *Store) Capabilities() journal.Capabilities {
	return journal.Capabilities{
		Durability: s.durability, Hints: s.hints, Check: s.Check,
		SendBroadcasts: s.sendBroadcasts, ReceiveBroadcasts: s.receiveBroadcasts,
	}
}

// isDead pings a connection that was idle and reports whether it is closed; the pool
// then drops it. If the ping times out, isDead also resets the pool, since the network
// has probably lost all connections and waiting for each would take long.
func (s *Store) isDead(ctx context.Context, p pgxpool.ShouldPingParams) bool {
	if p.IdleDuration < time.Second {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if p.Conn.Ping(limited) != nil && limited.Err() == context.DeadlineExceeded {
		s.pool.Reset()
	}
	return p.Conn.IsClosed()
}

// enter begins a call, which ends with leave. The returned context ends a little after
// the statement timeout of the server. After Close, enter returns ErrClosed.
func (s *Store) enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, nil, journal.ErrClosed
	}
	s.running.Add(1)
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout+grace, errLate)
	return ctx, func() {
		if context.Cause(ctx) == errLate {
			s.pool.Reset() // as in isDead
		}
		cancel()
		s.running.Done()
	}, nil
}

// Close waits for running calls and closes all connections. It is idempotent.
func (s *Store) Close() error {
	s.over.Do(func() {
		s.mu.Lock()
		s.closing = true
		close(s.closed)
		s.mu.Unlock()
		s.running.Wait()
		if s.wire != nil {
			s.wire.close()
		}
		s.pool.Close()
	})
	return nil
}
