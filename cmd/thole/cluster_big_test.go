package main_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/internal/servertest"
)

// The load of the test below: 32 clients of three servers for a while, and then until
// there are enough operations to check.
const (
	longestLoad   = 20 * time.Minute
	killInterval  = 5 * time.Second
	linearClients = 20
	ledgerClients = 4
	lockClients   = 3
	askers        = 1
	workers       = 4
)

// Three servers on one PostgreSQL, one of which is killed every five seconds,
// while PostgreSQL restarts once.
func TestSeveralServersAreOneWhileTheyAreKilled(t *testing.T) {
	servertest.Faults(t)
	leastLinear := effort.Amount(10_000, 10_000, 100_000)
	loadTime := effort.Amount(20*time.Second, 20*time.Second, time.Minute)
	pg := pgtest.Own(t)
	c := startCluster(t, same(pg.Database(t), 3))
	ledgers := []string{"project:ledger0", "project:ledger1"}
	spaces := append([]string{workSpace, "project:linear0"}, ledgers...)
	watchers := map[string][]*roamer{}
	for _, space := range spaces {
		watchers[space], _ = c.watchAround(t, space, len(c.Members))
	}
	ctx, cancel := context.WithTimeout(t.Context(), longestLoad)
	defer cancel()
	load := &linearLoad{Clients: linearClients, Reads: 8}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		pauseFor(ctx, loadTime)
		for ctx.Err() == nil && load.recorded() < leastLinear {
			pauseFor(ctx, time.Second)
		}
	})
	log, book := newFencingLog(), newLedger()
	clients := startLoad(ctx, &wg, c, log, book, ledgers)
	kills := 0
	wg.Go(func() { kills = c.killInTurn(ctx) })
	wg.Go(func() {
		pauseFor(ctx, loadTime/2+killInterval/2)
		if err := pg.Restart(); err != nil {
			t.Errorf("restart PostgreSQL: %v", err)
		}
	})
	loadLinear(ctx, t, c.HTTP, c.URLs, load, leastLinear)
	wg.Wait()

	events, seen, streams := 0, 0, 0
	for _, space := range spaces {
		journal := c.consistent(t, space)
		events += len(journal)
		if slices.Contains(ledgers, space) {
			dense(t, space, journal)
			book.compare(t, space, journal)
			book.compareCount(t, c.Members[0], space)
		}
		if space == workSpace {
			log.compare(t, journal)
		}
		for _, w := range watchers[space] {
			w.sawAll(t, journal)
			seen += w.count()
			streams += w.opened()
		}
	}
	for _, s := range c.Members {
		s.Terminate() // doctor would take concurrent writes for problems
	}
	servertest.MustBeHealthy(t, c.Members[0].Store)
	retries := 0
	for _, cl := range clients {
		retries += cl.Retries
	}
	if least := int(loadTime/killInterval) / 2; kills < least { // a restart takes some time
		t.Errorf("kills: got %d, want at least %d", kills, least)
	}
	if log.fenced == 0 {
		t.Error("no write was fenced: nobody was replaced while it worked")
	}
	entries, increments := book.count()
	t.Logf("%d kills, 1 restart of PostgreSQL, %d clients: %d entries and %d increments acknowledged and there once, %d requests repeated",
		kills, linearClients+len(clients), entries, increments, retries)
	t.Logf("%d watchers of %d spaces saw %d events over %d streams: the same %d, once and in order", len(spaces)*len(c.Members), len(spaces), seen, streams, events)
}

// startLoad starts the clients whose work is compared with the journal.
func startLoad(ctx context.Context, wg *sync.WaitGroup, c *cluster, log *fencingLog, book *ledger, ledgers []string) (all []*client) {
	start := func(n int, work func(i int, cl *client)) {
		for i := range n {
			cl := c.client()
			all = append(all, cl)
			wg.Go(func() { work(i, cl) })
		}
	}
	start(ledgerClients, func(i int, cl *client) { book.write(ctx, cl, ledgers[i%len(ledgers)]) })
	start(lockClients, func(_ int, cl *client) { log.contend(ctx, cl) })
	start(askers, func(_ int, cl *client) { log.ask(ctx, cl) })
	start(workers, func(_ int, cl *client) { log.work(ctx, cl) })
	return all
}

// killInTurn kills one member after the other until ctx ends, starts each again
// at once, and returns how many it killed.
func (c *cluster) killInTurn(ctx context.Context) (n int) {
	for {
		pauseFor(ctx, killInterval)
		if ctx.Err() != nil {
			return n
		}
		c.Members[n%len(c.Members)].Kill()
		c.restart(n % len(c.Members))
		n++
	}
}
