package pgstore_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/journal"
)

func TestViewsCanBeQueriedByTimeTypeActorAndContent(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	s := open(t, dsn)
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	results, err := s.Commit(t.Context(), []journal.Commit{{
		Space: "project:shop", Now: now, Actor: "user:42", Cause: "sess_1",
		Events: []journal.Event{
			{Stream: "thread/a", Type: "message.added", Refs: []string{"task_1"}, Data: []byte(`{"n": 1.0}`)},
			{Stream: "thread/a", Type: "message.added", Data: []byte(`"\u0000"`)},
		},
		Writes: []journal.Write{{Key: "thread/a", Value: []byte(`{"turns":1}`), Expires: now.Add(time.Hour)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	first, last := results[0].First.String(), results[0].Last.String()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), `SET timezone = 'UTC'`); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ sql, want string }{
		{`SELECT to_jsonb(e) - 'schema' FROM thole.events AS e WHERE time >= '2026-01-02' AND type = 'message.added' AND actor = 'user:42' AND data @> '{"n": 1}'`,
			`{"space": "project:shop", "position": "` + first + `", "stream": "thread/a", "type": "message.added", "time": "2026-01-02T03:04:05.000006+00:00",
			"actor": "user:42", "cause": "sess_1", "subject": null, "refs": ["task_1"], "data": {"n": 1.0}}`},
		{`SELECT jsonb_agg(data) FROM thole.events WHERE refs IS NULL`, `["\"\\u0000\""]`}, // as text
		{`SELECT jsonb_agg(position) FROM thole.events WHERE refs ? 'task_1'`, `["` + first + `"]`},
		{`SELECT to_jsonb(r) - 'schema' FROM thole.records AS r WHERE value ->> 'turns' = '1'`,
			`{"space": "project:shop", "key": "thread/a", "version": "` + last + `", "updated": "2026-01-02T03:04:05.000006+00:00",
			"expires": "2026-01-02T04:04:05.000006+00:00", "notify": false, "value": {"turns": 1}}`},
		{`SELECT to_jsonb(s) FROM thole.streams AS s`, `{"space": "project:shop", "stream": "thread/a", "events": 2, "last": "` + last + `"}`},
		{`SELECT to_jsonb(s) FROM thole.spaces AS s`, `{"name": "project:shop", "oldest": "` + first + `", "last": "` + last + `", "epochs": 1}`},
	} {
		var got, want any
		var text []byte
		if err := c.QueryRow(t.Context(), tt.sql).Scan(&text); err != nil {
			t.Fatalf("%s: %v", tt.sql, err)
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		g, _ := json.Marshal(got)
		if w, _ := json.Marshal(want); string(g) != string(w) {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.sql, g, w)
		}
	}
}

func TestAnIndexOnContentServesTheView(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	commit(t, open(t, dsn), "user:1", "s", `{"n":1}`)
	execSQL(t, dsn, `CREATE INDEX by_content ON thole.event USING gin (thole.queryable(data))`)
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), `SET enable_seqscan = off; SET enable_indexscan = off`); err != nil {
		t.Fatal(err)
	}
	rows, err := c.Query(t.Context(), `EXPLAIN SELECT * FROM thole.events WHERE data @> '{"n": 1}'`)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !strings.Contains(strings.Join(plan, "\n"), "by_content") {
		t.Errorf("plan: got %q, %v; want the index in it", plan, err)
	}
}

// A store of some size does every kind of work; then the test reads the server's
// statistics.
func TestNothingIsFoundByReadingAWholeTable(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	scans := func() (n int) { // connections report their statistics when they end, without the client
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for others := 1; others > 0; <-tick.C {
			err := c.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&others)
			if err != nil {
				t.Fatal(err)
			}
		}
		err := c.QueryRow(t.Context(), `SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname IN ('event', 'record')`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	open(t, dsn).Close()
	before := scans()
	s := open(t, dsn)
	var last journal.Position
	for i := range 20 {
		var batch []journal.Commit
		for j := range 64 {
			name := string(rune('a'+j%26)) + "/x"
			batch = append(batch, journal.Commit{
				Space: []string{"user:1", "user:2"}[j%2], Now: time.Unix(int64(i), 0),
				Checks: []journal.Check{{Stream: "none"}, {Key: "none"}},
				Events: []journal.Event{{Stream: name, Type: "a.b"}},
				Writes: []journal.Write{{Key: name, Value: []byte(`1`), Expires: time.Unix(1000, 0)}, {Key: "gone"}},
			})
		}
		r, err := s.Commit(t.Context(), batch)
		if err != nil || r[0].Conflict != nil {
			t.Fatal(r[0], err)
		}
		last = r[0].Last
	}
	for _, q := range []journal.ReadQuery{{}, {After: last}, {Before: last, Backward: true, Limit: 5}, {Stream: "a/x", Limit: 2}, {Types: []string{"a.*"}, Actor: "x"}} {
		if _, err := s.Read(t.Context(), "user:1", q); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Get(t.Context(), "user:1", "a/x", "b/x"); err != nil {
		t.Fatal(err)
	}
	for _, q := range []journal.ListQuery{{}, {Prefix: "a/"}, {DueBy: time.Unix(2000, 0)}} {
		if _, err := s.List(t.Context(), "user:1", q); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if after := scans(); after != before {
		t.Errorf("sequential scans: got %d, want none", after-before)
	}
}
