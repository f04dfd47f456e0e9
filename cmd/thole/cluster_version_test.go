package main_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

// What a newer program adds, as the migrations of pgstore do: in one transaction. While
// it sleeps nobody can write.
var addingStep = newerStep{what: "add things", sql: `
ALTER TABLE thole.event ADD COLUMN added bigint NOT NULL DEFAULT 7;
CREATE TABLE thole.addition (id bigint PRIMARY KEY);
SELECT pg_sleep(1);`}

// A later one takes away what older programs need.
var breakingStep = newerStep{what: "take away", sql: `ALTER FUNCTION thole.commit_1 RENAME TO commit_2`, breaks: true}

func TestServersWorkOnWhileANewerProgramMigratesTheirStore(t *testing.T) {
	servertest.Faults(t)
	adding := newerProgram(t, "thole.commit_1", addingStep)
	breaking := newerProgram(t, "thole.commit_2", addingStep, breakingStep)
	dsn := clusterStore(t)
	c := startCluster(t, same(dsn, 3))
	const space = "project:upgrade"
	watchers, _ := c.watchAround(t, space, 3)
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
		servertest.Eventually(t, 20*time.Second, what, func() bool { return entries() > before+50 })
	}
	replace := func(i int, program string) {
		t.Helper()
		c.Members[i].Terminate()
		c.Members[i].Program = program
		c.Members[i].Start()
	}

	more("the load works")
	if n := migratedAtOnce(t, adding, dsn, 3); n != 1 {
		t.Errorf("%d of 3 newer programs that came at once migrated the store, want 1", n)
	}
	more("the load goes on after a migration that adds")
	replace(0, adding)
	more("the load goes on with a newer program beside older ones")
	replace(1, "")
	more("the load goes on after an older program was started again")
	cancel()
	wg.Wait()
	for _, cl := range clients {
		for answer := range cl.Answers {
			if answer != "none" { // the server was started again
				t.Errorf("a request during the migration got %s", answer)
			}
		}
	}
	write := func(i int) (servertest.Reply, error) {
		return c.Members[i].Do(t.Context(), "POST", "/v1/spaces/"+space+"-after/events", map[string]any{"type": "ledger.entry"})
	}
	for i := range c.Members {
		if r, err := write(i); err != nil || r.Status != http.StatusCreated {
			t.Errorf("a write on server %d, where two versions are at work: %d %s %v", i+1, r.Status, r.Body, err)
		}
	}

	replace(0, breaking)
	if r, err := write(0); err != nil || r.Status != http.StatusCreated {
		t.Errorf("a write of the program that took something away: %d %s %v", r.Status, r.Body, err)
	}
	if r, err := write(1); err != nil || r.Status != http.StatusNotImplemented || r.Code() != "unsupported" {
		t.Errorf("a write of an older program after a migration that breaks it: %d %s %v", r.Status, r.Body, err)
	}
	journal := c.consistent(t, space)
	dense(t, space, journal)
	book.compare(t, space, journal)
	book.compareCount(t, c.Members[0], space)
	for _, w := range watchers {
		w.sawAll(t, journal)
	}
	if after := c.consistent(t, space+"-after"); len(after) != len(c.Members)+1 {
		t.Errorf("%d events after the load, want those %d that were acknowledged", len(after), len(c.Members)+1)
	}
	c.Members[2].Terminate()
	if err := c.Members[2].TryStart(); err == nil || !strings.Contains(c.Members[2].LogTail(), "use a newer one") {
		t.Errorf("an older program that starts on it: %v\n%s", err, c.Members[2].LogTail())
	}
	if out, err := servertest.CLI(t.Context(), "migrate", "--store", dsn); err == nil || !strings.Contains(err.Error(), "use a newer one") {
		t.Errorf("an older program that migrates it: %v\n%s", err, out)
	}
	t.Logf("%d entries, all there once", entries())
}

// migratedAtOnce starts n programs at the same time that migrate a store, and returns
// how many of them did.
func migratedAtOnce(t *testing.T, program, dsn string, n int) (did int) {
	t.Helper()
	if out, err := servertest.CLIOf(t.Context(), program, "migrate", "--dry-run", "--store", dsn); err != nil || !strings.Contains(out, addingStep.what) {
		t.Errorf("the newer program's migration: %v\n%s", err, out)
	}
	outs, errs := make([]string, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { outs[i], errs[i] = servertest.CLIOf(t.Context(), program, "migrate", "--store", dsn) })
	}
	wg.Wait()
	for i, out := range outs {
		if errs[i] != nil {
			t.Error(errs[i])
		}
		if strings.Contains(out, addingStep.what) {
			did++
		}
	}
	return did
}
