package pgstore_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/thole-dev/thole/backend/pgstore"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/journal"
)

// execSQL runs statements as an administrator would.
func execSQL(t testing.TB, dsn, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// as returns dsn for another user and, unless it is empty, another database.
func as(t testing.TB, dsn, user, password, database string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		u.User = url.UserPassword(user, password)
	}
	if database != "" {
		u.Path = "/" + database
	}
	return u.String()
}

// severalHosts returns dsn with a dead host before its own.
func severalHosts(t testing.TB, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = "127.0.0.1:1," + u.Host
	return u.String()
}

func TestOpenSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	server := pgtest.Start(t)
	dsn := server.Database(t)
	sequel := server.Database(t)
	execSQL(t, sequel, `ALTER DATABASE `+sequel[strings.LastIndex(sequel, "/")+1:]+` SET default_transaction_isolation = 'serializable'`)
	execSQL(t, dsn, `CREATE ROLE guest LOGIN PASSWORD 'guest'; CREATE SCHEMA theirs; CREATE TABLE theirs.invoice (n int);
		CREATE SCHEMA newer; CREATE TABLE newer.format (version int, reader int); INSERT INTO newer.format VALUES (12, 11)`)
	execSQL(t, dsn, `CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0`)
	t.Cleanup(func() {
		c, err := pgx.Connect(context.Background(), dsn)
		if err == nil {
			c.Exec(context.Background(), `DROP DATABASE latin`)
			c.Exec(context.Background(), `DROP ROLE guest`)
			c.Close(context.Background())
		}
	})
	for _, tt := range []struct {
		name, dsn string
		want      error
		says      string
	}{
		{"no URL", "postgres", journal.ErrInvalid, "postgres://USER"},
		{"no such option", with(t, dsn, "pooler", "maybe"), journal.ErrInvalid, "neither on nor off"},
		{"an invalid timeout", with(t, dsn, "timeout", "soon"), journal.ErrInvalid, "30s"},
		{"a schema that is no name", with(t, dsn, "schema", `a"b`), journal.ErrInvalid, "schema"},
		{"a schema that ends a function", with(t, dsn, "schema", `a$$b`), journal.ErrInvalid, "schema"},
		{"two hosts", severalHosts(t, dsn), journal.ErrInvalid, "one host"},
		{"two hosts as a parameter", "postgres://thole:hunter2@/x?host=127.0.0.1,127.0.0.1&port=1,2", journal.ErrInvalid, "one host"},
		{"two hosts of the direct connection", with(t, dsn, "direct", "postgres://thole:hunter2@127.0.0.1:1,127.0.0.1:2/x"), journal.ErrInvalid, "direct"},
		{"wrong password", as(t, dsn, "thole", "hunter2", ""), journal.ErrInvalid, "password"},
		{"no such user", as(t, dsn, "nobody", "hunter2", ""), journal.ErrInvalid, "user nobody"},
		{"no such database", as(t, dsn, "", "", "nowhere"), journal.ErrNotFound, "createdb nowhere"},
		{"no server", "postgres://thole:hunter2@127.0.0.1:1/x", journal.ErrUnavailable, "does it run"},
		{"no right to create", as(t, dsn, "guest", "guest", ""), journal.ErrInvalid, "AUTHORIZATION guest"},
		{"another encoding", as(t, dsn, "", "", "latin"), errors.ErrUnsupported, "UTF8"},
		{"another isolation", sequel, errors.ErrUnsupported, "read committed"},
		{"the schema of another program", with(t, dsn, "schema", "theirs"), journal.ErrInvalid, "schema="},
		{"a store of a newer program", with(t, dsn, "schema", "newer"), errors.ErrUnsupported, "newer"},
		{"a direct connection that fails", with(t, dsn, "direct", "postgres://thole:hunter2@127.0.0.1:1/x"), journal.ErrUnavailable, "hints and broadcasts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := pgstore.Open(t.Context(), tt.dsn)
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, tt.want) {
				t.Fatalf("got error %v, want %v", err, tt.want)
			}
			if !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %q, want %q in it and no password", err, tt.says)
			}
		})
	}
}

func TestAPoolerWithoutADirectConnectionNeedsNoOption(t *testing.T) {
	server := pgtest.Start(t)
	dsn := server.Database(t)
	pooled, other := open(t, server.Pooled(t, dsn)), open(t, dsn)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- pooled.Capabilities().Hints(ctx, func(string) { t.Error("a hint came through the pooler") })
	}()
	for range 10 { // by now, clients share connections to the server
		commit(t, other, "user:1", "a", `1`)
		commit(t, pooled, "user:1", "a", `1`)
		if page, err := pooled.Read(t.Context(), "user:1", journal.ReadQuery{}); err != nil || len(page.Events)%2 != 0 {
			t.Errorf("read: got %d events, %v; want all", len(page.Events), err)
		}
	}
	if err := pooled.Capabilities().SendBroadcasts(t.Context(), []journal.Broadcast{{Space: "user:1"}}); err != nil {
		t.Errorf("send: got %v, want nothing to happen", err)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("watch: got %v, want nil", err)
	}
}

func TestCommitsAreSyncedWhereTheServersDefaultIsNot(t *testing.T) {
	dsn := pgtest.Own(t).Database(t)
	execSQL(t, dsn, `ALTER DATABASE `+dsn[strings.LastIndex(dsn, "/")+1:]+` SET synchronous_commit = off`)
	s := open(t, dsn)
	// The setting at the time of the commit.
	execSQL(t, dsn, `CREATE TABLE public.seen (setting text);
		CREATE FUNCTION public.look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER look AFTER INSERT ON thole.event DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.look()`)
	commit(t, s, "user:1", "a", `1`)
	head := journal.Head{Oldest: pos(1), Last: pos(1), Epochs: []journal.Epoch{{Name: pos(1).Epoch, First: 1, Last: 1}}}
	err := s.Load(t.Context(), "user:2", journal.Chunk{Head: head, Events: []journal.Event{{Position: pos(1), Stream: "s", Type: "s.made", Time: time.Now()}}, Done: true})
	if err != nil {
		t.Fatal(err)
	}
	execSQL(t, dsn, `DO $$ BEGIN ASSERT (SELECT array_agg(setting) FROM public.seen) = '{on,on}'; END $$`)
	if got := s.Capabilities().Durability; got != journal.Sync {
		t.Errorf("durability: got %v, want sync", got)
	}
}

func pos(seq uint64) journal.Position { return journal.Position{Epoch: "0001aaaaaaaa", Seq: seq} }

func TestAnErrorAtTheVeryCommitIsReturnedAndNotRetried(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	s := open(t, dsn)
	execSQL(t, dsn, `CREATE SEQUENCE public.calls;
		CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('public.calls'); RAISE 'at commit' USING ERRCODE = '53100'; END $$;
		CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON thole.event DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.fail()`)
	_, err := s.Commit(t.Context(), []journal.Commit{{Space: "user:1", Events: []journal.Event{{Stream: "s", Type: "s.made"}}}})
	if !errors.Is(err, journal.ErrFull) {
		t.Errorf("commit: got error %v, want ErrFull", err)
	}
	execSQL(t, dsn, `DO $$ BEGIN ASSERT (SELECT last_value FROM public.calls) = 1; END $$`)
	heads, err := s.Heads(t.Context(), "user:1")
	if err != nil || !heads[0].Last.IsZero() {
		t.Errorf("head: got %v, %v; want none", heads, err)
	}
}

func TestWhatTheServerRolledBackForOthersIsRepeated(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	s := open(t, dsn)
	execSQL(t, dsn, `CREATE SEQUENCE public.calls;
		CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('public.calls') = 1 THEN RAISE 'once' USING ERRCODE = '40P01'; END IF; RETURN NULL; END $$;
		CREATE TRIGGER fail AFTER INSERT ON thole.event FOR EACH ROW EXECUTE FUNCTION public.fail()`)
	if got := commit(t, s, "user:1", "s", `1`).Last.Seq; got != 1 {
		t.Errorf("seq: got %d, want 1", got)
	}
}
