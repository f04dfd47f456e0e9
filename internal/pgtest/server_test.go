package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// helperEnv makes this program a process that starts a server and waits to be
// killed.
const helperEnv = "THOLE_TEST_PGTEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		s, err := Launch()
		if err == nil {
			var dsn string
			if dsn, err = s.Create(context.Background()); err == nil {
				_, err = s.Pool(dsn)
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(s.dir, s.Addr(), s.pgbouncer.addr)
		select {}
	}
	goleak.VerifyTestMain(m)
}

// show asks the server for a setting.
func show(t *testing.T, dsn, setting string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	var value string
	if err := c.QueryRow(t.Context(), "SHOW "+setting).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestAServerOfOnesOwnIsDurable(t *testing.T) {
	dsn := Own(t).Database(t)
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		if got := show(t, dsn, setting); got != "on" {
			t.Errorf("%s: got %q, want on", setting, got)
		}
	}
}

func TestADatabaseIsReachedThroughThePooler(t *testing.T) {
	s := Start(t)
	pooled := s.Pooled(t, s.Database(t))
	c, err := pgx.Connect(t.Context(), pooled+"?default_query_exec_mode=exec")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	var pid int
	if err := c.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil || pid == int(c.PgConn().PID()) {
		t.Errorf("backend: got pid %d as the client was told, error %v; want another one, of the pooler's", pid, err)
	}
}

func TestWhatWasAcknowledgedOutlivesStopAndKill(t *testing.T) {
	s := Own(t)
	dsn := s.Database(t)
	exec := func(sql string) {
		t.Helper()
		c, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE t (n int)")
	for i, end := range []func() error{s.Stop, s.Kill} {
		exec(fmt.Sprintf("INSERT INTO t VALUES (%d)", i))
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if c, err := pgx.Connect(t.Context(), dsn); err == nil {
			c.Close(t.Context())
			t.Fatal("connect to a server that was ended: got success")
		}
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	exec("DO $$ BEGIN ASSERT (SELECT count(*) FROM t) = 2; END $$")
}

func TestServersEndWithAProcessThatIsKilled(t *testing.T) {
	Start(t).Pooled(t, Start(t).Database(t)) // so that missing programs skip
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var dir, addr, pooler string
	if _, err := fmt.Fscanln(out, &dir, &addr, &pooler); err != nil {
		t.Fatalf("the process did not start a server: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	limit, tick := time.After(patience), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		_, statErr := os.Stat(dir)
		if errors.Is(statErr, os.ErrNotExist) && !listens(addr) && !listens(pooler) {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: %v; postgres listens: %v, pgbouncer: %v", dir, statErr, listens(addr), listens(pooler))
		}
	}
}

func listens(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		c.Close()
	}
	return err == nil
}

func TestServersAreSkippedUnlessAllMustBeTested(t *testing.T) {
	for _, tt := range []struct {
		all  string
		want string
	}{{"", "skip"}, {"all", ""}, {"soak", ""}} {
		t.Setenv("THOLE_TEST", tt.all)
		r := &outcome{TB: t}
		asked(r)
		if r.got != tt.want {
			t.Errorf("THOLE_TEST=%q: got %q, want %q", tt.all, r.got, tt.want)
		}
	}
	r := &outcome{TB: t}
	require(r, fmt.Errorf("PostgreSQL is %w", ErrMissing))
	if r.got != "fatal" {
		t.Errorf("missing programs: got %q, want fatal", r.got)
	}
}

// outcome remembers how a test was ended instead of ending it.
type outcome struct {
	testing.TB
	got string
}

func (o *outcome) Helper() {}
func (o *outcome) Skip(...any) {
	o.got = "skip"
}
func (o *outcome) Fatal(...any) {
	if o.got == "" {
		o.got = "fatal"
	}
}

func TestADatabaseIsEmptyWhoeverHadItBefore(t *testing.T) {
	s := Start(t)
	use := func(t *testing.T) (dsn string) {
		t.Helper()
		dsn = s.Database(t)
		for _, through := range []string{dsn, s.Pooled(t, dsn)} {
			if got := show(t, through+"?default_query_exec_mode=exec", "synchronous_commit"); got != "on" {
				t.Errorf("%s: synchronous_commit: got %q, want on", through, got)
			}
		}
		for _, sql := range []string{
			"CREATE SCHEMA mine; CREATE TABLE mine.t (n int); CREATE TABLE t (n int)",
			"ALTER DATABASE " + nameOf(dsn) + " SET synchronous_commit = off",
		} {
			if err := execute(t.Context(), dsn, sql); err != nil {
				t.Fatal(err)
			}
		}
		return dsn
	}
	var first string
	t.Run("first", func(t *testing.T) { first = use(t) })
	if second := use(t); second != first {
		t.Errorf("second database: got %s, want %s again", second, first)
	}
}
