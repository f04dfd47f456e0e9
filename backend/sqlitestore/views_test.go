package sqlitestore_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/thole-dev/thole/journal"
)

// query returns the first row of a query as text, as a shell would show it.
func query(t *testing.T, path, sql string) map[string]string {
	t.Helper()
	db, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, _, err := db.Prepare(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	defer s.Close()
	row := map[string]string{}
	if s.Step() {
		for i := range s.ColumnCount() {
			row[s.ColumnName(i)] = s.ColumnText(i)
		}
	}
	if err := s.Err(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return row
}

func TestViewsCanBeReadByPeople(t *testing.T) {
	path := filepath.Join(t.TempDir(), "thole.db")
	s := open(t, path, nil)
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	results, err := s.Commit(t.Context(), []journal.Commit{{
		Space: "project:shop", Now: now, Actor: "user:42", Cause: "sess_1",
		Events: []journal.Event{{Stream: "thread/a", Type: "message.added", Data: []byte(`{"n":1}`)}},
		Writes: []journal.Write{{Key: "thread/a", Value: []byte(`{"turns":1}`), Expires: now.Add(time.Hour)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	position := results[0].Last.String()
	for _, tt := range []struct {
		sql  string
		want map[string]string
	}{
		{`SELECT * FROM events`, map[string]string{
			"space": "project:shop", "position": position, "stream": "thread/a", "type": "message.added",
			"time": "2026-01-02T03:04:05.000006Z", "actor": "user:42", "cause": "sess_1", "data": `{"n":1}`,
		}},
		{`SELECT * FROM records`, map[string]string{
			"space": "project:shop", "key": "thread/a", "version": position, "updated": "2026-01-02T03:04:05.000006Z",
			"expires": "2026-01-02T04:04:05.000006Z", "value": `{"turns":1}`,
		}},
		{`SELECT * FROM streams`, map[string]string{
			"space": "project:shop", "stream": "thread/a", "events": "1", "last": position,
		}},
		{`SELECT * FROM spaces`, map[string]string{"name": "project:shop", "oldest": position, "last": position, "epochs": "1"}},
	} {
		got := query(t, path, tt.sql)
		for column, want := range tt.want {
			if got[column] != want {
				t.Errorf("%s: column %s: got %q, want %q", tt.sql, column, got[column], want)
			}
		}
	}
}
