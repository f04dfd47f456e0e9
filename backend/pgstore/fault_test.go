package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/thole-dev/thole/backend/pgstore"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/journal"
)

// eventually calls try until it succeeds, which depends on another process.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

func TestAStoreOutlivesTheServersEnd(t *testing.T) {
	server := pgtest.Own(t)
	dsn := server.Database(t)
	ours, theirs := open(t, dsn), open(t, dsn)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	woken, done := make(chan string, 1000), make(chan error, 1)
	go func() { done <- ours.Capabilities().Hints(ctx, func(space string) { woken <- space }) }()
	acknowledged := 0
	for _, end := range []func() error{server.Stop, server.Kill} {
		commit(t, ours, "user:1", "s", `1`)
		acknowledged++
		if err := end(); err != nil {
			t.Fatal(err)
		}
		_, err := ours.Commit(t.Context(), []journal.Commit{{Space: "user:1", Events: []journal.Event{{Stream: "s", Type: "s.made"}}}})
		if !errors.Is(err, journal.ErrUnavailable) {
			t.Errorf("commit without a server: got error %v, want ErrUnavailable", err)
		}
		if _, err := ours.Heads(t.Context(), "user:1"); !errors.Is(err, journal.ErrUnavailable) {
			t.Errorf("heads without a server: got error %v, want ErrUnavailable", err)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "heads after a restart", func() error {
			heads, err := ours.Heads(t.Context(), "user:1")
			if err == nil && heads[0].Last.Seq != uint64(acknowledged) {
				t.Fatalf("head: got %v, want seq %d", heads[0].Last, acknowledged)
			}
			return err
		})
		eventually(t, "a hint after a restart", func() error {
			r, err := theirs.Commit(t.Context(), []journal.Commit{{Space: "user:2", Events: []journal.Event{{Stream: "s", Type: "s.made"}}}})
			if err != nil {
				return err
			}
			for {
				select {
				case space := <-woken:
					if space == "user:2" {
						return nil
					}
				case <-time.After(50 * time.Millisecond):
					return errors.New("none came after " + r[0].Last.String())
				}
			}
		})
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("watch: got %v, want nil", err)
	}
	if err := ours.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAServerThatEndsBehindAPoolerIsUnavailable(t *testing.T) {
	t.Parallel() // it mostly waits
	server := pgtest.Own(t)
	s := open(t, with(t, server.Pooled(t, server.Database(t)), "timeout", "3s"))
	commit(t, s, "user:1", "s", `1`)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 3 { // a pooler's answer may change
		if _, err := s.Heads(t.Context(), "user:1"); !errors.Is(err, journal.ErrUnavailable) {
			t.Errorf("heads: got error %v, want ErrUnavailable", err)
		}
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "heads after a restart", func() error {
		_, err := s.Heads(t.Context(), "user:1")
		return err
	})
}

func TestALockThatSomeoneHoldsEndsInAnError(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	s := open(t, with(t, dsn, "timeout", "1s"))
	commit(t, s, "user:1", "s", `1`)
	holder := open(t, dsn)
	held, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- pgstore.HoldHead(t.Context(), holder, "user:1", held, release) }()
	<-held
	_, err := s.Commit(t.Context(), []journal.Commit{{Space: "user:1", Events: []journal.Event{{Stream: "s", Type: "s.made"}}}})
	if !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("commit to a space whose head is locked: got error %v, want ErrUnavailable", err)
	}
	commit(t, s, "user:2", "s", `1`)
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	commit(t, s, "user:1", "s", `1`)
}

func TestAnUnknownDurabilityIsNamed(t *testing.T) {
	server := pgtest.Own(t)
	dsn := server.Database(t)
	execSQL(t, dsn, `ALTER SYSTEM SET fsync = off`)
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if got := open(t, dsn).Capabilities().Durability; got != journal.Relaxed {
		t.Errorf("durability with fsync off: got %v, want relaxed", got)
	}
}

func TestCheckFindsWhatTheFormatRulesOut(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	s := open(t, dsn)
	commit(t, s, "user:1", "s", `1`)
	if err := s.Check(t.Context()); err != nil {
		t.Fatalf("a sound store: %v", err)
	}
	for _, damage := range []string{
		`UPDATE thole.space SET oldest = 'long ago'`,
		`UPDATE thole.space SET oldest = epoch || '-0000000000000002'`,
		`UPDATE thole.space SET last = 0`,
		`UPDATE thole.space SET epoch = '0009aaaaaaaa'`,
		`UPDATE thole.event SET space = 77`,
	} {
		undo := lines(t, dsn, dumpSQL)
		execSQL(t, dsn, damage)
		if err := s.Check(t.Context()); !errors.Is(err, journal.ErrCorrupt) {
			t.Errorf("after %s: got %v, want ErrCorrupt", damage, err)
		}
		execSQL(t, dsn, `TRUNCATE thole.space, thole.event, thole.record; `+undo)
	}
}

func TestAStoreThatIsLetInNoMoreIsUnavailable(t *testing.T) {
	dsn := pgtest.Own(t).Database(t)
	s := open(t, dsn)
	commit(t, s, "user:1", "s", `1`)
	at := strings.LastIndex(dsn, "/") + 1
	admin, name := dsn[:at]+"postgres", dsn[at:]
	for what, sql := range map[string][2]string{
		"the database has another name": {"ALTER DATABASE " + name + " RENAME TO away", "ALTER DATABASE away RENAME TO " + name},
		"the password is another one":   {"ALTER ROLE thole PASSWORD 'other'", "ALTER ROLE thole PASSWORD 'thole'"},
	} {
		c, err := pgx.Connect(t.Context(), admin) // kept, for the password
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		run := func(sql string) {
			t.Helper()
			if _, err := c.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		for cut := `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '` + name + `'`; ; {
			run(cut) // the store may reconnect meanwhile
			if _, err := c.Exec(t.Context(), sql[0]); err == nil {
				run(cut)
				break
			}
		}
		for range 2 {
			if _, err := s.Get(t.Context(), "user:1", "k"); !errors.Is(err, journal.ErrUnavailable) {
				t.Errorf("get while %s: got %v, want ErrUnavailable", what, err)
			}
		}
		run(sql[1])
		commit(t, s, "user:1", "s", `1`)
	}
}
