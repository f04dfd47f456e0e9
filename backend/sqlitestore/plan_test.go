package sqlitestore

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/journal"
)

// Every kind of read and write runs, and SQLite says how it executes each statement
// that they prepared.
func TestNoStatementScansOrSorts(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "thole.db"), &Options{Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	useAll(t, s)
	// These read few rows, or need all of them.
	exceptions := []string{
		`expires <= ?`,                 // sorts the due records
		`FROM event JOIN stream`,       // Check
		`FROM sqlite_schema`,           // Open
		`NOT EXISTS (SELECT 1 FROM ev`, // of a trimmed space
	}
	reader, err := s.readers.take(t.Context(), s.closed)
	if err != nil {
		t.Fatal(err)
	}
	defer s.readers.give(reader)
	for _, c := range []*conn{s.writer.conn, reader} {
	statements:
		for sql := range c.stmts {
			for _, e := range exceptions {
				if strings.Contains(sql, e) {
					continue statements
				}
			}
			plan := explain(t, c, sql)
			t.Logf("%s\n%s", sql, plan)
			if strings.Contains(plan, "SCAN") || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("%s: got the plan\n%swant searches only", sql, plan)
			}
		}
	}
}

func explain(t *testing.T, c *conn, sql string) string {
	t.Helper()
	st, _, err := c.Prepare(`EXPLAIN QUERY PLAN ` + sql)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var plan strings.Builder
	for st.Step() {
		plan.WriteString("  " + st.ColumnText(3) + "\n")
	}
	if err := st.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

// useAll calls every method, in every way that has a statement of its own.
func useAll(t *testing.T, s *Store) {
	t.Helper()
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	commit := func(space string, value []byte) journal.Position {
		r, err := s.Commit(ctx, []journal.Commit{{
			Space: space, Now: time.Now(),
			Checks: []journal.Check{{Key: "none"}, {Stream: "none"}},
			Events: []journal.Event{{Stream: "a", Type: "note.added"}, {Stream: "b", Type: "note.added"}},
			Writes: []journal.Write{{Key: "k", Value: value}},
		}})
		must(err)
		return r[0].Last
	}
	first := commit("user:1", []byte(`1`))
	commit("user:1", []byte(`2`))
	commit("user:1", nil)
	last := commit("user:2", []byte(`1`))
	for _, q := range []journal.ReadQuery{{}, {After: first}, {Before: first}, {Types: []string{"note.added"}}} {
		for _, q.Stream = range []string{"", "a"} {
			for _, q.Backward = range []bool{false, true} {
				_, err := s.Read(ctx, "user:1", q)
				must(err)
			}
		}
	}
	_, err := s.Get(ctx, "user:1", "k")
	must(err)
	for _, due := range []time.Time{{}, time.Now()} {
		_, err = s.List(ctx, "user:1", journal.ListQuery{DueBy: due})
		must(err)
		_, err = s.Spaces(ctx, journal.SpacesQuery{DueBy: due})
		must(err)
	}
	_, err = s.Heads(ctx, "user:1")
	must(err)
	heads, err := s.Heads(ctx, "user:2")
	must(err)
	must(s.Load(ctx, "user:3", journal.Chunk{Head: heads[0], Events: []journal.Event{{Position: last, Stream: "a", Type: "note.added"}}, Done: true}))
	must(s.Check(ctx))
	for _, p := range []journal.Purge{{Events: []journal.Position{first}}, {Before: first}, {Streams: []string{"a"}, UpTo: first}, {Streams: []string{"a"}}, {All: true}} {
		must(s.Purge(ctx, "user:1", p))
	}
}
