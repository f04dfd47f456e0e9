//go:build faults

package main_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// What a newer program would do to the store when it starts, in the way that the
// migrations of pgstore take: one transaction that adds.
const addingMigration = `
SELECT pg_advisory_xact_lock(hashtextextended('thole migrates thole', 0));
ALTER TABLE thole.event ADD COLUMN added bigint NOT NULL DEFAULT 7;
CREATE TABLE thole.addition (id bigint PRIMARY KEY);
UPDATE thole.format SET version = version + 1;`

// And one that takes away what older programs need.
const breakingMigration = `
SELECT pg_advisory_xact_lock(hashtextextended('thole migrates thole', 0));
DROP FUNCTION thole.commit_1;
UPDATE thole.format SET version = version + 1, reader = version + 1;`

func TestServersWorkOnWhileANewerProgramMigratesTheirStore(t *testing.T) {
	dsn := clusterStore(t)
	c := startCluster(t, same(dsn, 2))
	const space = "project:upgrade"
	watchers, _ := c.watchAround(t, space, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	book := newLedger()
	var wg sync.WaitGroup
	var clients []*client
	for range 6 {
		cl := c.client()
		clients = append(clients, cl)
		wg.Go(func() { book.write(ctx, cl, space) })
	}
	entries := func() int { n, _ := book.count(); return n }
	more := func(what string) {
		t.Helper()
		before := entries()
		eventually(t, 20*time.Second, what, func() bool { return entries() > before+50 })
	}
	more("the load works")
	migrateAs(t, dsn, addingMigration)
	more("the load goes on after a migration that adds")
	c.Members[0].Terminate()
	c.Members[0].Start() // the older program, again
	more("the load goes on after an older program was started again")
	cancel()
	wg.Wait()
	for _, cl := range clients {
		for answer := range cl.Answers {
			if answer != "none" { // of the server that was started again
				t.Errorf("a request during the migration got %s", answer)
			}
		}
	}

	migrateAs(t, dsn, breakingMigration)
	r, err := c.Members[1].Do(t.Context(), "POST", "/v1/spaces/"+space+"/events", map[string]any{"type": "ledger.entry"})
	if err != nil || r.Status != http.StatusNotImplemented || r.Code() != "unsupported" {
		t.Errorf("a write of an older program after a migration that breaks it: %d %s %v", r.Status, r.Body, err)
	}
	journal := c.consistent(t, space)
	dense(t, space, journal)
	book.compare(t, space, journal)
	book.compareCount(t, c.Members[0], space)
	for _, w := range watchers {
		w.sawAll(t, journal)
	}
	c.Members[0].Terminate()
	if err := c.Members[0].TryStart(); err == nil || !strings.Contains(c.Members[0].LogTail(), "use a newer one") {
		t.Errorf("an older program that starts on it: %v\n%s", err, c.Members[0].LogTail())
	}
	t.Logf("%d entries, all there once", entries())
}

// migrateAs runs SQL in one transaction, as a program that opens the store.
func migrateAs(t *testing.T, dsn, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), sql); err != nil { // several statements are one transaction
		t.Fatal(err)
	}
}
