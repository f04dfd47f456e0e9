package pgstore_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/jackc/pgx/v5"

	"github.com/thole-dev/thole/backend/pgstore"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/journal"
)

// testdata/v1.schema is what the first migration makes, v1.sql the rows of a
// store that a program of that version wrote, and v1.read what it read of them.
// They are made anew by
//
//	THOLE_TEST=all go test ./backend/pgstore -run Golden -update
//
// but only while no released program has made such a store. A later migration
// adds files of its own and leaves these as they are.
var update = flag.Bool("update", false, "write the golden files of version 1 anew")

const golden = "testdata/v1"

// compare compares got with a golden file, or writes that.
func compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the output of %s has changed:\n%s", path, udiff.Unified("then", "now", string(want), got))
	}
}

// lines returns the result of a query of one text column.
func lines(t *testing.T, dsn, sql string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), `SET timezone = 'UTC'; SET search_path = ''`); err != nil {
		t.Fatal(err)
	}
	rows, err := c.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n") + "\n"
}

func TestGoldenSchemaIsWhatTheFirstMigrationMakes(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	if err := pgstore.MigrateTo(t.Context(), dsn, 1); err != nil {
		t.Fatal(err)
	}
	compare(t, golden+".schema", lines(t, dsn, schemaSQL))
}

// schemaSQL describes tables, views and functions from the catalog, in a form that is
// the same on every version of PostgreSQL. (The text of a view's definition is not.)
const schemaSQL = `
SELECT line FROM (
	SELECT 1 AS part, c.relname::text AS name, 0 AS n, format('%s %s%s', CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' ELSE c.relkind::text END,
		c.relname, coalesce(' with ' || c.reloptions::text, '')) AS line
	FROM pg_catalog.pg_class AS c WHERE c.relnamespace = 'thole'::pg_catalog.regnamespace AND c.relkind NOT IN ('i', 'S')
UNION ALL
	SELECT 1, c.relname, a.attnum, pg_catalog.format('  column %s %s%s%s%s%s', a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
		(SELECT ' collate ' || l.collname FROM pg_catalog.pg_collation AS l WHERE l.oid = a.attcollation AND l.collname <> 'default'),
		CASE WHEN a.attnotnull THEN ' not null' END, CASE WHEN a.attidentity <> '' THEN ' identity ' || a.attidentity::text END,
		' default ' || pg_catalog.pg_get_expr(d.adbin, d.adrelid))
	FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
	LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
	WHERE c.relnamespace = 'thole'::pg_catalog.regnamespace AND c.relkind NOT IN ('i', 'S')
UNION ALL
	SELECT 1, c.relname, 1000, '  ' || pg_catalog.pg_get_indexdef(i.indexrelid)
	FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_index AS i ON i.indrelid = c.oid WHERE c.relnamespace = 'thole'::pg_catalog.regnamespace
UNION ALL
	SELECT 1, c.relname, 1001, '  constraint ' || k.conname || ' ' || pg_catalog.pg_get_constraintdef(k.oid)
	FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_constraint AS k ON k.conrelid = c.oid
	WHERE c.relnamespace = 'thole'::pg_catalog.regnamespace AND k.contype <> 'n'
UNION ALL
	SELECT 2, p.proname, 0, pg_catalog.pg_get_functiondef(p.oid) FROM pg_catalog.pg_proc AS p WHERE p.pronamespace = 'thole'::pg_catalog.regnamespace
) AS of ORDER BY part, name COLLATE "C", n, line COLLATE "C"`

func TestGoldenStoreReadsAndGoesOn(t *testing.T) {
	server := pgtest.Start(t)
	if *update {
		dsn := server.Database(t)
		fill(t, open(t, dsn))
		if err := os.WriteFile(golden+".sql", []byte(lines(t, dsn, dumpSQL)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dsn := server.Database(t)
	if err := pgstore.MigrateTo(t.Context(), dsn, 1); err != nil {
		t.Fatal(err)
	}
	rows, err := os.ReadFile(golden + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	execSQL(t, dsn, string(rows))
	s := open(t, dsn)
	compare(t, golden+".read", readAll(t, s))
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	heads, err := s.Heads(t.Context(), "project:shop")
	if err != nil {
		t.Fatal(err)
	}
	if at := commit(t, s, "project:shop", "thread/a", `1`).First; at.Seq != heads[0].Last.Seq+1 || at.Epoch != heads[0].Last.Epoch {
		t.Errorf("a commit after %v: got position %v, want the next one", heads[0].Last, at)
	}
	commit(t, s, "user:new", "s", `1`)
	imported := staged
	imported.Done = true
	if err := s.Load(t.Context(), "user:half", imported); err != nil {
		t.Errorf("end of an import that was under way: %v", err)
	}
	if page, err := s.Read(t.Context(), "user:half", journal.ReadQuery{}); err != nil || len(page.Events) != 2 {
		t.Errorf("the imported space: got %v, %v; want both events", page.Events, err)
	}
}

// dumpSQL writes the rows as statements, like pg_dump, without the row of the table
// format, which a migration writes.
const dumpSQL = `
SELECT pg_catalog.format('INSERT INTO thole.space (id, name, staged, oldest, last, epoch, first, epochs) OVERRIDING SYSTEM VALUE VALUES (%s, %L, %L, %L, %s, %L, %s, %L);',
	id, name, staged, oldest, last, epoch, first, epochs) FROM (SELECT * FROM thole.space ORDER BY id) AS s
UNION ALL
SELECT pg_catalog.format('SELECT setval(pg_get_serial_sequence(''thole.space'', ''id''), %s);', max(id)) FROM thole.space
UNION ALL
SELECT pg_catalog.format('INSERT INTO thole.event (space, seq, stream, type, time, schema, actor, subject, cause, refs, data) VALUES (%s, %s, %L, %L, %L, %s, %L, %L, %L, %L, %L);',
	space, seq, stream, type, time, schema, actor, subject, cause, refs, data) FROM (SELECT * FROM thole.event ORDER BY space, seq) AS e
UNION ALL
SELECT pg_catalog.format('INSERT INTO thole.record (space, key, version, updated, expires, notify, schema, value) VALUES (%s, %L, %s, %L, %L, %L, %s, %L);',
	space, key, version, updated, expires, notify, schema, value) FROM (SELECT * FROM thole.record ORDER BY space, key) AS r`

func at(epoch string, seq uint64) journal.Position { return journal.Position{Epoch: epoch, Seq: seq} }

// staged is the rest of an import whose first event fill loads.
var staged = journal.Chunk{
	Head: journal.Head{
		Space: "user:half", Oldest: at("0001aaaaaaaa", 1), Last: at("0001aaaaaaaa", 2),
		Epochs: []journal.Epoch{{Name: "0001aaaaaaaa", First: 1, Last: 2}},
	},
	Events: []journal.Event{{Position: at("0001aaaaaaaa", 2), Stream: "s", Type: "s.made", Time: time.Unix(2, 0)}},
}

// fill writes everything that a store may contain.
func fill(t *testing.T, s *pgstore.Store) {
	t.Helper()
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	results, err := s.Commit(t.Context(), []journal.Commit{
		{
			Space: "project:shop", Now: now, Actor: "user:42", Cause: "sess_1",
			Events: []journal.Event{
				{Stream: "thread/a", Type: "message.added", Subject: "user:42", Refs: []string{"task_1", `a"b`}, Schema: 2, Data: []byte("{\"n\": 1.0,\n \"text\":\"it's ü\\u0000\"}")},
				{Stream: "thread/ü'\\", Type: "note.added"},
				{Stream: "thread/b", Type: "message.added", Subject: "user:7", Data: []byte(`"secret"`)},
				{Stream: "gone", Type: "note.added", Data: []byte(`0`)},
			},
			Writes: []journal.Write{
				{Key: "thread/a", Value: []byte(`{"turns": 1, "a": 1E400}`), Schema: 3},
				{Key: "thread/ü'\\", Value: []byte(`null`), Expires: now.Add(time.Hour), Notify: true},
				{Key: "idem/x", Value: []byte(`[]`), Expires: now.Add(-time.Hour)},
			},
		},
		{Space: "project:shop", Now: now.Add(time.Second), Writes: []journal.Write{{Key: "thread/b", Value: []byte(`2`)}}},
		{Space: "user:42", Now: now, Events: []journal.Event{{Stream: "s", Type: "s.made"}, {Stream: "s", Type: "s.made", Data: []byte(`1`)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	shop := results[0]
	for space, p := range map[string]journal.Purge{
		"project:shop": {Events: []journal.Position{at(shop.First.Epoch, 3)}},
		"user:42":      {Before: results[2].Last},
	} {
		if err := s.Purge(t.Context(), space, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Purge(t.Context(), "project:shop", journal.Purge{Streams: []string{"gone"}}); err != nil {
		t.Fatal(err)
	}
	restored := journal.Chunk{Done: true, Head: journal.Head{
		Space: "user:restored", Oldest: at("0001aaaaaaaa", 2), Last: at("0002bbbbbbbb", 3),
		Epochs: []journal.Epoch{{Name: "0001aaaaaaaa", First: 1, Last: 2}, {Name: "0002bbbbbbbb", First: 3, Last: 3}},
	}, Events: []journal.Event{
		{Position: at("0001aaaaaaaa", 2), Stream: "s", Type: "s.made", Time: now, Actor: "system"},
		{Position: at("0002bbbbbbbb", 3), Stream: "s", Type: "s.made", Time: now},
	}, Records: []journal.Record{{Key: "k", Value: []byte(`1`), Version: at("0001aaaaaaaa", 1), Updated: now}}}
	first := staged
	first.Events = []journal.Event{{Position: at("0001aaaaaaaa", 1), Stream: "s", Type: "s.made", Time: time.Unix(1, 0)}}
	for space, c := range map[string]journal.Chunk{"user:restored": restored, "user:half": first} {
		if err := s.Load(t.Context(), space, c); err != nil {
			t.Fatal(err)
		}
	}
}

// readAll returns what a store shows, a line each: JSON, and beside it the bytes of the
// value, which JSON might write differently.
func readAll(t *testing.T, s *pgstore.Store) string {
	t.Helper()
	var out bytes.Buffer
	say := func(what string, v any, data json.RawMessage) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %s %q\n", what, text, data)
	}
	spaces, err := s.Spaces(t.Context(), journal.SpacesQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, space := range spaces {
		heads, err := s.Heads(t.Context(), space)
		if err != nil {
			t.Fatal(err)
		}
		say("head", heads[0], nil)
		page, err := s.Read(t.Context(), space, journal.ReadQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			data := e.Data
			e.Data = nil
			say("event", e, data)
		}
		records, err := s.List(t.Context(), space, journal.ListQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			value := r.Value
			r.Value = nil
			say("record", r, value)
		}
	}
	return out.String()
}
