package pgstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/thole-dev/thole/backend/pgstore"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/journal"
)

// In a space with many records, the test counts how many entries of the records'
// indexes the server reads.
func TestNeitherACommitNorAPageCostsMoreInALargeSpace(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	func() {
		s := open(t, dsn)
		defer s.Close()
		for i := range 20 {
			c := journal.Commit{Space: "user:1", Now: time.Unix(1, 0)}
			for j := range journal.MaxCommitItems {
				w := journal.Write{Key: fmt.Sprintf("a/%d/%d", i, j), Value: []byte(`1`)}
				if j%10 == 0 {
					w.Expires = time.Unix(1000, 0)
				}
				c.Writes = append(c.Writes, w)
			}
			if _, err := s.Commit(t.Context(), []journal.Commit{c}); err != nil {
				t.Fatal(err)
			}
		}
	}()
	execSQL(t, dsn, `INSERT INTO thole.record (space, key, version, updated, expires, notify, schema, value)
		SELECT 1000 + n % 1000, 'b/' || n, 1, now(), '2100-01-01', false, 0, '1' FROM generate_series(1, 30000) AS n; ANALYZE`)
	for name, do := range map[string]func(*pgstore.Store) error{
		"commit of a record": func(s *pgstore.Store) error {
			c := journal.Commit{Space: "user:1", Now: time.Unix(2, 0), Writes: []journal.Write{{Key: "a/5/5", Value: []byte(`2`)}}}
			_, err := s.Commit(t.Context(), []journal.Commit{c})
			return err
		},
		"page of a list": func(s *pgstore.Store) error {
			_, err := s.List(t.Context(), "user:1", journal.ListQuery{Prefix: "a/", After: "a/3", Limit: 10})
			return err
		},
		"list of what is due": func(s *pgstore.Store) error {
			_, err := s.List(t.Context(), "user:1", journal.ListQuery{DueBy: time.Unix(2, 0)})
			return err
		},
	} {
		before := entriesRead(t, dsn)
		s := open(t, dsn)
		for range 10 { // a plan may change when it is used often
			if err := do(s); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		s.Close() // connections report their statistics when they end
		if n := entriesRead(t, dsn) - before; n > 10*100 {
			t.Errorf("%s, ten times: the server looked at %d entries of indexes, want a few for each", name, n)
		}
	}
}

// entriesRead returns how many entries of the records' indexes were read.
func entriesRead(t *testing.T, dsn string) (n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	err = c.QueryRow(t.Context(), `SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'record'`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
