package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/thole-dev/thole/journal"
)

func concurrencyCases() []testCase {
	return []testCase{
		{"border/what was passed may be changed afterwards", borderPassed},
		{"border/what was given may be changed", borderGiven},
		{"concurrency/counters under a check lose nothing", concurrentCounter},
		{"concurrency/no reader sees a seq before an earlier one", concurrentReaders},
		{"concurrency/each call sees whole commits", concurrentAtomic},
		{"concurrency/one stream is created once", concurrentCreate},
		{"concurrency/many spaces at once", concurrentSpaces},
	}
}

// scribble overwrites b, as its owner may do at any time.
func scribble(b []byte) {
	for i := range b {
		b[i] = '#'
	}
}

func borderPassed(e *env) {
	ev := event("s", "s.made")
	ev.Refs = []string{"a", "b"}
	c := commitOf(ev, set("k", `{"v":1}`))
	batch := []journal.Commit{c}
	r := e.commit(batch...)[0]
	events, records := eventsOf(c, r), recordsOf(c, r)
	events[0].Refs = []string{"a", "b"}
	scribble(c.Events[0].Data)
	scribble(c.Writes[0].Value)
	c.Events[0].Refs[0], c.Events[0].Stream, c.Writes[0].Key = "#", "#", "#"
	e.equal("journal", e.readAll(space, journal.ReadQuery{}), events)
	e.equal("stream", e.readAll(space, journal.ReadQuery{Stream: "s"}), events)
	e.equal("record", e.get(space, "k"), records)

	chunk, want := twoEpochs("user:1"), stateOf(twoEpochs("user:1"))
	e.load("user:1", chunk)
	for i := range chunk.Events {
		scribble(chunk.Events[i].Data)
		chunk.Events[i].Refs[0] = "#"
	}
	for i := range chunk.Records {
		scribble(chunk.Records[i].Value)
	}
	chunk.Head.Epochs[0].Name = "#"
	e.equal("loaded", e.state("user:1"), want)
}

func borderGiven(e *env) {
	ev := event("s", "s.made")
	ev.Refs = []string{"a", "b"}
	e.must(ev, set("k", `{"v":1}`))
	e.unchanged(space, func() {
		for _, q := range []journal.ReadQuery{{}, {Backward: true}, {Stream: "s"}} {
			for _, got := range e.readAll(space, q) {
				scribble(got.Data)
				clear(got.Refs)
			}
		}
		for _, r := range append(e.get(space, "k"), e.list(space, journal.ListQuery{})...) {
			scribble(r.Value)
		}
		clear(e.head(space).Epochs)
	})
}

// parallel runs do n times in parallel and waits for all. In do, report errors by
// returning them; never call Fatal.
func (e *env) parallel(n int, do func(i int) error) {
	e.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	e.need(errors.Join(errs...) == nil, "in parallel: %v", errors.Join(errs...))
}

// increment adds one to a record under a check until it succeeds.
func increment(ctx context.Context, b journal.Backend, key string) error {
	for range 10_000 {
		records, err := b.Get(ctx, space, key)
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(string(records[0].Value))
		results, err := b.Commit(ctx, []journal.Commit{commitOf(
			journal.Check{Key: key, At: records[0].Version}, event(key, "counter.added"), set(key, strconv.Itoa(n+1)))})
		if err != nil {
			return err
		}
		if results[0].Conflict == nil {
			return nil
		}
	}
	return fmt.Errorf("%s: every attempt is a conflict", key)
}

func concurrentCounter(e *env) {
	const workers, each = 8, 15
	e.parallel(workers, func(int) error {
		for range each {
			if err := increment(e.ctx, e.b, "counter"); err != nil {
				return err
			}
		}
		return nil
	})
	e.equal("counter", string(e.get(space, "counter")[0].Value), strconv.Itoa(workers*each))
	e.equal("events", len(e.readAll(space, journal.ReadQuery{})), workers*each)
}

func concurrentReaders(e *env) {
	const writers, readers, each = 6, 3, 20
	const total = writers * each * 2
	first := e.must(event("s", "s.made")).First
	e.parallel(writers+readers, func(i int) error {
		if i < writers {
			for range each {
				if _, err := e.b.Commit(e.ctx, []journal.Commit{commitOf(event("s", "s.made"), event("s", "s.seen"))}); err != nil {
					return err
				}
			}
			return nil
		}
		at, giveUp := first, time.Now().Add(patience)
		for at.Seq < first.Seq+total {
			if time.Now().After(giveUp) {
				return fmt.Errorf("stuck at %v", at)
			}
			heads, err := e.b.Heads(e.ctx, space)
			if err != nil {
				return err
			}
			page, err := e.b.Read(e.ctx, space, journal.ReadQuery{After: at, Limit: 1 + i*3})
			if err != nil {
				return err
			}
			for _, ev := range page.Events {
				if ev.Position != seq(at, 1) {
					return fmt.Errorf("after %v came %v", at, ev.Position)
				}
				at, giveUp = ev.Position, time.Now().Add(patience)
			}
			if page.Next.IsZero() && at.Seq < heads[0].Last.Seq {
				return fmt.Errorf("read up to %v, but the head was already %v", at, heads[0].Last)
			}
		}
		return nil
	})
}

func concurrentAtomic(e *env) {
	e.must(set("a", `0`), set("b", `0`))
	const writers, readers, each = 4, 3, 25
	e.parallel(writers+readers, func(i int) error {
		for n := range each {
			value := fmt.Sprint(i*each + n)
			if i < writers {
				c := commitOf(event("s", "s.made"), event("t", "s.made"), set("a", value), set("b", value))
				if _, err := e.b.Commit(e.ctx, []journal.Commit{c}); err != nil {
					return err
				}
				continue
			}
			got, err := e.b.Get(e.ctx, space, "a", "b")
			if err != nil {
				return err
			}
			listed, err := e.b.List(e.ctx, space, journal.ListQuery{})
			if err != nil {
				return err
			}
			for _, pair := range [][]journal.Record{got, listed} {
				if len(pair) != 2 || pair[0].Version != pair[1].Version || string(pair[0].Value) != string(pair[1].Value) {
					return fmt.Errorf("half a commit: %s", show(pair))
				}
			}
			page, err := e.b.Read(e.ctx, space, journal.ReadQuery{})
			if err != nil {
				return err
			}
			if len(page.Events)%2 != 0 {
				return fmt.Errorf("half a commit: %d events", len(page.Events))
			}
		}
		return nil
	})
}

func concurrentCreate(e *env) {
	const workers = 12
	won := make([]bool, workers)
	e.parallel(workers, func(i int) error {
		results, err := e.b.Commit(e.ctx, []journal.Commit{
			commitOf(journal.Check{Stream: "s"}, journal.Check{Key: "k"}, event("s", "s.made"), set("k", fmt.Sprint(i))),
		})
		if err == nil {
			won[i] = results[0].Conflict == nil
		}
		return err
	})
	winners := 0
	for i, w := range won {
		if w {
			winners++
			e.equal("the winner's value", string(e.get(space, "k")[0].Value), fmt.Sprint(i))
		}
	}
	e.equal("winners", winners, 1)
	e.equal("head", e.head(space).Last.Seq, uint64(1))
}

func concurrentSpaces(e *env) {
	const workers, each = 8, 12
	e.parallel(workers, func(i int) error {
		for n := range each {
			batch := []journal.Commit{
				commitOf(fmt.Sprintf("user:%d", i), event("s", "s.made"), set("k", fmt.Sprint(n))),
				commitOf(fmt.Sprintf("user:%d", (i+1)%workers), event("t", "s.made")),
			}
			if _, err := e.b.Commit(e.ctx, batch); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range workers {
		e.equal("head", e.head(fmt.Sprintf("user:%d", i)).Last.Seq, uint64(2*each))
	}
}
