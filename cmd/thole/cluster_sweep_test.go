package main_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/thole-dev/thole/internal/servertest"
)

const (
	sweptSpace = "project:swept"
	sweptThere = 1000 // records that expire at once
	// The lease of a process that sweeps lasts 10 s; others look for work every
	// second, and the machine may be busy.
	takeover = 20 * time.Second
)

// audit is PostgreSQL's own record of which server ended which record: each server has
// a name there. It slows down each end, so that a sweep continues for some seconds
// after a fault.
const audit = `
CREATE TABLE thole.audit (key text PRIMARY KEY, server text, at timestamptz);
CREATE FUNCTION thole.audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_sleep(0.005);
	INSERT INTO thole.audit VALUES (OLD.key, current_setting('application_name'), clock_timestamp());
	RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER DELETE ON thole.record FOR EACH ROW
	WHEN (OLD.key LIKE 'app/%') EXECUTE FUNCTION thole.audit();`

// sweep is three servers with much to sweep.
type sweep struct {
	*cluster
	t    *testing.T
	conn *pgx.Conn
}

// startSweep starts the servers and writes records that expire a little later.
func startSweep(t *testing.T) *sweep {
	t.Helper()
	dsn := clusterStore(t)
	var named []string
	for i := range 3 {
		named = append(named, fmt.Sprintf("%s?application_name=server%d", dsn, i))
	}
	s := &sweep{cluster: startCluster(t, named), t: t}
	var err error
	if s.conn, err = pgx.Connect(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.conn.Close(t.Context()) })
	if _, err := s.conn.Exec(t.Context(), audit); err != nil {
		t.Fatal(err)
	}
	expires := time.Now().Add(3 * time.Second) // when all have been written
	for n := 0; n < sweptThere; {
		var writes []map[string]any
		for ; n < sweptThere && len(writes) < 250; n++ {
			writes = append(writes, map[string]any{"key": fmt.Sprintf("app/%d", n), "value": n, "expires_at": expires.UTC(), "notify": true})
		}
		s.Members[0].Must("POST", "/v1/spaces/"+sweptSpace+"/commits", map[string]any{"writes": writes}, nil)
	}
	return s
}

// swept is a record that was ended, as PostgreSQL recorded it.
type swept struct {
	Server string
	At     time.Time
}

// swept returns the last n records that were ended, the newest first.
func (s *sweep) swept(n int) []swept {
	s.t.Helper()
	rows, err := s.conn.Query(s.t.Context(), `SELECT server, at FROM thole.audit ORDER BY at DESC LIMIT $1`, n)
	if err != nil {
		s.t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[swept])
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// another waits until a server other than the one that swept has ended some records in
// a row. It returns its name.
func (s *sweep) another(than, what string) (server string) {
	s.t.Helper()
	const inARow = 20
	servertest.Eventually(s.t, takeover, what, func() bool {
		last := s.swept(inARow)
		if len(last) < inARow {
			return false
		}
		server = last[0].Server
		return server != than && !slices.ContainsFunc(last, func(e swept) bool { return e.Server != server })
	})
	return server
}

// member returns the server of that name.
func (s *sweep) member(name string) *servertest.Server {
	var i int
	if _, err := fmt.Sscanf(name, "server%d", &i); err != nil {
		s.t.Fatalf("%q swept, which is not one of the servers", name)
	}
	return s.Members[i]
}

// ended waits until no record is left, and checks that each was ended once, with its
// event. It returns which server ended them, in order.
func (s *sweep) ended(on *servertest.Server) []swept {
	s.t.Helper()
	servertest.Eventually(s.t, time.Minute, "all that expired is ended", func() bool {
		var n int
		if err := s.conn.QueryRow(s.t.Context(), `SELECT count(*) FROM thole.audit`).Scan(&n); err != nil {
			s.t.Fatal(err)
		}
		return n == sweptThere
	})
	events := on.Events(sweptSpace)
	streams := map[string]bool{}
	for _, e := range events {
		if e.Type != "app.expired" {
			s.t.Errorf("unexpected: %s", e.Text)
		}
		streams[e.Stream] = true
	}
	if len(events) != sweptThere || len(streams) != sweptThere {
		s.t.Errorf("%d events of %d records, want one of each of %d", len(events), len(streams), sweptThere)
	}
	all := s.swept(sweptThere)
	slices.Reverse(all)
	return all
}

func TestASweeperThatIsKilledIsReplaced(t *testing.T) {
	servertest.Faults(t)
	t.Parallel()
	s := startSweep(t)
	first := s.another("", "one sweeps")
	s.member(first).Kill()
	begin := time.Now()
	second := s.another(first, "another sweeps in place of the killed one")
	found := time.Since(begin)
	all := s.ended(s.member(second))
	i := slices.IndexFunc(all, func(e swept) bool { return e.Server != first })
	if j := slices.IndexFunc(all[i:], func(e swept) bool { return e.Server == first }); j >= 0 {
		t.Errorf("the killed sweeper ended record %d, another the first %d", i+j, i)
	}
	t.Logf("%d records ended by the first, the rest by another within %v of the kill; the sweep stood still for %v",
		i, found.Round(time.Second), all[i].At.Sub(all[i-1].At).Round(time.Second))
}

func TestASweeperThatWasPausedDoesNotSweepBesideTheOneThatReplacedIt(t *testing.T) {
	servertest.Faults(t)
	t.Parallel()
	s := startSweep(t)
	first := s.another("", "one sweeps")
	paused := s.member(first)
	paused.Signal(syscall.SIGSTOP)
	s.another(first, "another sweeps in place of the paused one")
	paused.Signal(syscall.SIGCONT)
	woken := time.Now()
	all := s.ended(paused)

	// A replaced server may complete what it had begun, beside the other one: a record ends
	// only once. Once it knows that it was replaced, it sweeps only when it is elected
	// again, which may be after each part of the other's sweep, also at once: then the two
	// take turns, each for many records in a row.
	const (
		late   = 2 * time.Second // by then it knows
		inARow = 20
	)
	began, beside, after := 0, 0, 0
	all = slices.DeleteFunc(all, func(e swept) bool { return e.At.Before(woken) })
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(e swept) bool { return e.Server != all[0].Server })
		if n < 0 {
			n = len(all)
		}
		last := n == len(all)
		switch {
		case all[0].Server != first: // its successor, or the successor's successor
			after += n
		case n >= inARow || last: // its turn
		case all[0].At.Before(woken.Add(late)):
			began += n
		default:
			beside += n
		}
		all = all[n:]
	}
	if began > 100 || beside > inARow || after == 0 { // at the end of a turn one or two overlap
		t.Errorf("once woken up it ended %d records beside the others within %v and %d later, while the others ended %d; want a few, hardly any and some", began, late, beside, after)
	}
	t.Logf("once woken up it ended %d more records beside the others; those, at the same time and later, %d", began, after)
}
