package main_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/internal/servertest"
)

// outage is two servers, each with its own faulty connection to one PostgreSQL.
type outage struct {
	*cluster
	t     *testing.T
	pg    *pgtest.Server
	lines []*servertest.FaultLine
}

const (
	outageSpace   = "project:outage"
	statementTime = "3s" // --store …?timeout=
	// A request that meets a dead connection is answered within this time: it may have
	// to wait for another batch to be given up before its own.
	longestAnswer = 30 * time.Second
	// A server works again within this time after a fault is over.
	longestRecovery = 30 * time.Second
)

func startOutage(t *testing.T) *outage {
	t.Helper()
	o := &outage{t: t, pg: pgtest.Own(t)}
	dsn := o.pg.Database(t)
	var dsns []string
	for range 2 {
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		line := servertest.StartFaultLine(t, u.Host)
		u.Host, u.RawQuery = line.Addr, "pool_max_conns=8&timeout="+statementTime
		o.lines, dsns = append(o.lines, line), append(dsns, u.String())
	}
	o.cluster = startCluster(t, dsns)
	return o
}

// Whatever happens between the servers and PostgreSQL, nothing acknowledged is lost,
// nothing happens twice, errors are 503 unavailable, nothing hangs, and the servers
// work again by themselves.
func TestOutagesOfPostgreSQLLoseNothingAndEndByThemselves(t *testing.T) {
	servertest.Faults(t)
	t.Parallel()
	o := startOutage(t)
	watchers, _ := o.watchAround(t, outageSpace, 4)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	book := newLedger()
	var clients []*client
	var wg sync.WaitGroup
	for range 8 {
		c := o.client()
		c.Patience = longestAnswer
		clients = append(clients, c)
		wg.Go(func() { book.write(ctx, c, outageSpace) })
	}
	for _, fault := range []struct {
		name string
		do   func()
	}{
		{"latency", o.latency},
		{"resets", o.resets},
		{"half-open connections", o.halfOpen},
		{"partition of one server", o.partition},
		{"restart of PostgreSQL", o.restartPrimary},
		{"crash of PostgreSQL", o.crashPrimary},
	} {
		before, _ := book.count()
		fault.do()
		o.recovered(fault.name)
		during, _ := book.count()
		t.Logf("%s: %d entries were acknowledged until then", fault.name, during-before)
		servertest.Eventually(t, longestRecovery, "the load goes on after "+fault.name, func() bool {
			now, _ := book.count()
			return now > during+20
		})
	}
	cancel()
	wg.Wait()
	journal := o.consistent(t, outageSpace)
	dense(t, outageSpace, journal)
	book.compare(t, outageSpace, journal)
	book.compareCount(t, o.Members[0], outageSpace)
	for _, w := range watchers {
		w.sawAll(t, journal)
	}
	answers, longest := map[string]int{}, time.Duration(0)
	for _, c := range clients {
		for what, n := range c.Answers {
			answers[what] += n
		}
		longest = max(longest, c.Longest)
	}
	for what := range maps.Keys(answers) {
		if what != "503 unavailable" {
			t.Errorf("a request got %q; want 503 unavailable", what)
		}
	}
	entries, increments := book.count()
	t.Logf("%d entries, %d increments, each there once; %d watchers saw all in order; other answers: %v, the slowest after %v",
		entries, increments, len(watchers), answers, longest.Round(time.Millisecond))
}

// recovered waits until each server is ready and acknowledges a change.
func (o *outage) recovered(after string) {
	o.t.Helper()
	begin := time.Now()
	for i, s := range o.Members {
		servertest.Eventually(o.t, longestRecovery, "a server works again after "+after, func() bool {
			ctx, cancel := context.WithTimeout(o.t.Context(), 5*time.Second)
			defer cancel()
			ready, err := s.Do(ctx, "GET", "/readyz", nil)
			if err != nil || ready.Status != http.StatusOK {
				return false
			}
			r, err := s.Do(ctx, "PUT", "/v1/spaces/project:probe/kv/after/fault", map[string]any{"data": after})
			return err == nil && r.Status == http.StatusOK
		})
		o.t.Logf("%s: server %d works after %v", after, i+1, time.Since(begin).Round(time.Millisecond))
	}
}

func (o *outage) latency() {
	for _, l := range o.lines {
		l.Delay(20 * time.Millisecond)
		defer l.Delay(0)
	}
	pauseFor(o.t.Context(), 3*time.Second)
}

func (o *outage) resets() {
	for range 10 {
		for _, l := range o.lines {
			l.Reset()
		}
		pauseFor(o.t.Context(), 200*time.Millisecond)
	}
}

func (o *outage) halfOpen() {
	for _, l := range o.lines {
		if l.Forget() == 0 {
			o.t.Error("there was no connection to make half-open")
		}
	}
}

// partition separates server 2 for longer than a lease whose holder talks to it. What
// the holder sent meanwhile arrives when another worker has the lease.
func (o *outage) partition() {
	const lease = 5 * time.Second
	lock := func(s *servertest.Server, owner string, wait time.Duration) (servertest.Reply, string) {
		var held struct{ Token string }
		r, err := s.Do(o.t.Context(), "POST", "/v1/spaces/project:cutoff/locks",
			map[string]any{"name": "one", "owner": owner, "ttl": lease.Seconds(), "wait": wait.Seconds()})
		if err != nil || r.Status == http.StatusCreated && json.Unmarshal(r.Body, &held) != nil {
			o.t.Errorf("lock: %s %v", r.Body, err)
		}
		return r, held.Token
	}
	write := func(s *servertest.Server, value, token string) servertest.Reply {
		r, err := s.Do(o.t.Context(), "PUT", "/v1/spaces/project:cutoff/kv/under/lock", map[string]any{"data": value}, "Thole-Fence", token)
		if err != nil {
			o.t.Errorf("write under a lock: %v", err)
		}
		return r
	}
	near, far := o.Members[0], o.Members[1]
	_, old := lock(far, "far", 0)
	if r := write(far, "before", old); r.Status != http.StatusOK {
		o.t.Errorf("the holder, before the partition: %d %s", r.Status, r.Body)
	}
	o.lines[1].Split()
	begin := time.Now()
	late := make(chan servertest.Reply, 1)
	go func() { late <- write(far, "late", old) }()
	taken, token := lock(near, "near", 4*lease)
	if taken.Status != http.StatusCreated || time.Since(begin) < lease/2 {
		o.t.Errorf("the lock, after %v: %d %s", time.Since(begin), taken.Status, taken.Body)
	}
	if r := write(near, "new", token); r.Status != http.StatusOK {
		o.t.Errorf("the new holder: %d %s", r.Status, r.Body)
	}
	if r := <-late; r.Status != http.StatusServiceUnavailable || r.Code() != "unavailable" {
		o.t.Errorf("a write from the cut off side: %d %s, want 503 unavailable", r.Status, r.Body)
	}
	if r, err := far.Do(o.t.Context(), "GET", "/readyz", nil); err != nil || r.Status != http.StatusServiceUnavailable {
		o.t.Errorf("/readyz of the server that is cut off: %d %v, want 503", r.Status, err)
	}
	o.lines[1].Join()
	o.recovered("the partition")
	if r := write(far, "too late", old); r.Code() != "fenced" {
		o.t.Errorf("the old holder, after the partition: %d %s, want 409 fenced", r.Status, r.Body)
	}
	var now struct{ Data string }
	near.Must("GET", "/v1/spaces/project:cutoff/kv/under/lock", nil, &now)
	if now.Data != "new" {
		o.t.Errorf("what the new holder wrote is %q now", now.Data)
	}
}

func (o *outage) restartPrimary() {
	if err := o.pg.Restart(); err != nil {
		o.t.Error(err)
	}
}

func (o *outage) crashPrimary() {
	if err := o.pg.Kill(); err != nil {
		o.t.Error(err)
	}
	pauseFor(o.t.Context(), 2*time.Second)
	if err := o.pg.Restart(); err != nil {
		o.t.Error(err)
	}
}
