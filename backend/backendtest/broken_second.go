package backendtest

import (
	"context"
	"sync"
	"testing"

	"github.com/thole-dev/thole/journal"
)

func brokenInstances() []broken {
	return []broken{
		{"an ability is lost without a word", "ability/what the harness lacks is declared", loseAbility},
		{"a second instance has a journal of its own", "second/two instances share one journal", ownJournal},
		{"an instance does not see what another one wrote to a record", "second/no read goes behind what an earlier one saw", instances(getOnce)},
		{"checks and writes of two instances are two steps", "second/two instances lose no update", checkThenWriteTogether},
		{"one method lags behind the others", "second/no read goes behind what an earlier one saw", instances(getLate)},
	}
}

// instances breaks a harness that has a second instance by wrapping both.
func instances(wrap func(good journal.Backend) journal.Backend) func(testing.TB, Harness, Opener) Harness {
	return func(_ testing.TB, good Harness, _ Opener) Harness {
		if second := good.Second; second != nil {
			good.Backend = wrap(good.Backend)
			good.Second = func(t testing.TB) journal.Backend { return wrap(second(t)) }
		}
		return good
	}
}

func loseAbility(_ testing.TB, good Harness, _ Opener) Harness { return Harness{Backend: good.Backend} }

func ownJournal(_ testing.TB, good Harness, open Opener) Harness {
	if good.Second != nil {
		good.Second = func(t testing.TB) journal.Backend { return open(t).Backend }
	}
	return good
}

// checkThenWriteTogether is checkThenWrite across both instances.
func checkThenWriteTogether(t testing.TB, good Harness, open Opener) Harness {
	meet := make(chan struct{})
	return instances(func(b journal.Backend) journal.Backend { return checkThenWriteAt(meet, b) })(t, good, open)
}

// recordCache is what a broken instance knows of records.
type recordCache struct {
	mu      sync.Mutex
	records map[string]journal.Record
}

// getOnce answers Get from a cache that only the instance's own commits clear.
func getOnce(good journal.Backend) journal.Backend {
	cache := recordCache{records: map[string]journal.Record{}}
	get := func(ctx context.Context, good journal.Backend, space string, keys []string) ([]journal.Record, error) {
		records, err := good.Get(ctx, space, keys...)
		cache.mu.Lock()
		defer cache.mu.Unlock()
		for i := range records {
			if old, ok := cache.records[keys[i]]; ok {
				records[i] = old
			}
			cache.records[keys[i]] = records[i]
		}
		return records, err
	}
	return committingReads{reading{Backend: good, get: get}, func([]journal.Commit) {
		cache.mu.Lock()
		defer cache.mu.Unlock()
		clear(cache.records)
	}}
}

// getLate answers every Get with the result of the Get before it.
func getLate(good journal.Backend) journal.Backend {
	cache := recordCache{records: map[string]journal.Record{}}
	return reading{Backend: good, get: func(ctx context.Context, good journal.Backend, space string, keys []string) ([]journal.Record, error) {
		records, err := good.Get(ctx, space, keys...)
		cache.mu.Lock()
		defer cache.mu.Unlock()
		for i, now := range records {
			if old, ok := cache.records[keys[i]]; ok {
				records[i] = old
			}
			cache.records[keys[i]] = now
		}
		return records, err
	}}
}
