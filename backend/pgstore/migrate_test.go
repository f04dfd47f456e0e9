package pgstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/journal"
)

// later are migrations of future programs: one that adds, and one that takes away.
var later = []migration{
	{what: "count reads", sql: `ALTER TABLE thole.space ADD COLUMN reads bigint NOT NULL DEFAULT 0; CREATE TABLE thole.tag (name text)`},
	{what: "commit in another way", breaks: true, sql: `DO $$ DECLARE f regprocedure; BEGIN
		SELECT oid::regprocedure INTO f FROM pg_proc WHERE proname = 'commit_1' AND pronamespace = 'thole'::regnamespace;
		EXECUTE 'ALTER FUNCTION ' || f || ' RENAME TO commit_2'; END $$`},
}

// newer migrates the store at dsn as a program that knows n more versions.
func newer(t *testing.T, dsn string, n int) error {
	t.Helper()
	return migrateAs(t.Context(), dsn, slices.Concat(migrations, later[:n]))
}

// write commits to a space until stop is closed and returns the number of commits.
func write(s *Store, space string, stop <-chan struct{}) (n int, err error) {
	for {
		select {
		case <-stop:
			return n, nil
		default:
		}
		_, err := s.Commit(context.Background(), []journal.Commit{{Space: space, Now: time.Now(), Events: []journal.Event{{Stream: "s", Type: "s.made"}}}})
		if err != nil {
			return n, err
		}
		n++
	}
}

func TestAnOlderProgramGoesOnWhileANewerOneAddsToTheStore(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	old, err := Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	stop, done := make(chan struct{}), make(chan error, 1)
	written := 0
	go func() {
		n, err := write(old, "user:1", stop)
		written = n
		done <- err
	}()
	if err := newer(t, dsn, 1); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), dsn)
	if err != nil {
		t.Fatalf("open by the older program: %v", err)
	}
	defer again.Close()
	if _, err := again.Commit(t.Context(), []journal.Commit{{Space: "user:2", Events: []journal.Event{{Stream: "s", Type: "s.made"}}}}); err != nil {
		t.Errorf("commit by the older program: %v", err)
	}
	close(stop)
	if err := <-done; err != nil {
		t.Errorf("commits meanwhile: %v", err)
	}
	heads, err := again.Heads(t.Context(), "user:1")
	if err != nil || heads[0].Last.Seq != uint64(written) {
		t.Errorf("head: got %v, %v; want seq %d", heads, err, written)
	}
}

func TestAnOlderProgramStopsWhenANewerOneTakesAway(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	old, err := Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	done := make(chan error, 1)
	go func() {
		_, err := write(old, "user:1", nil)
		done <- err
	}()
	if err := newer(t, dsn, 2); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "newer program") {
		t.Errorf("commit by the older program: got error %v, want ErrUnsupported", err)
	}
	if s, err := Open(t.Context(), dsn); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("open by the older program: got error %v, want ErrUnsupported", err)
		if err == nil {
			s.Close()
		}
	}
}

func TestOneOfManyProgramsMigrates(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	const programs = 8
	opened := make(chan error, programs)
	for range programs {
		go func() {
			s, err := Open(context.Background(), dsn)
			if err == nil {
				err = s.Close()
			}
			opened <- err
		}()
	}
	for range programs {
		if err := <-opened; err != nil {
			t.Error(err)
		}
	}
}

func TestADryRunOfAMigrationChangesNothing(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	for i, want := range []struct {
		dry   bool
		steps int
	}{{true, len(migrations)}, {true, len(migrations)}, {false, len(migrations)}, {true, 0}, {false, 0}} {
		steps, err := Migrate(t.Context(), dsn, want.dry)
		if err != nil || len(steps) != want.steps {
			t.Errorf("migrate %d (dry run: %v): got %q, %v; want %d steps", i, want.dry, steps, err, want.steps)
		}
		var exists bool
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		err = conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'thole')`).Scan(&exists)
		conn.Close(t.Context())
		if err != nil || exists != (i >= 2) {
			t.Errorf("after migrate %d: the schema exists: %v, %v", i, exists, err)
		}
	}
}
