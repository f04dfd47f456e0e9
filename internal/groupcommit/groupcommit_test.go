package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/thole-dev/thole/journal"
)

// backend acknowledges every commit, in two shards: the space "b" and all others.
type backend struct {
	journal.Backend
	fail    error  // of whole batches
	failing string // the space whose commits fail

	mu      sync.Mutex
	batches []int // how many commits each batch had
}

func (b *backend) Capabilities() journal.Capabilities {
	return journal.Capabilities{Shards: 2, Shard: func(space string) int {
		if space == "b" {
			return 1
		}
		return 0
	}}
}

func (b *backend) Commit(_ context.Context, batch []journal.Commit) ([]journal.Result, error) {
	b.mu.Lock()
	b.batches = append(b.batches, len(batch))
	b.mu.Unlock()
	results := make([]journal.Result, len(batch))
	for i, c := range batch {
		if c.Space == b.failing {
			results[i].Err = journal.ErrUnavailable
		}
	}
	return results, b.fail
}

// start starts a Committer that calls written and ended.
func start(t *testing.T, b *backend, written func([]journal.Commit, []journal.Result, error), ended func()) *Committer {
	c := New(b, written, ended)
	var tasks sync.WaitGroup
	c.Start(&tasks)
	t.Cleanup(func() {
		c.Close()
		tasks.Wait()
	})
	return c
}

func unheard([]journal.Commit, []journal.Result, error) {}

func commits(spaces ...string) (list []journal.Commit) {
	for _, name := range spaces {
		list = append(list, journal.Commit{Space: name})
	}
	return list
}

func TestABatchIsBusyUntilItWasToldAndHasThenEnded(t *testing.T) {
	var c *Committer
	var got []string
	c = start(t, &backend{},
		func([]journal.Commit, []journal.Result, error) {
			got = append(got, fmt.Sprint("written ", c.Busy("a")))
		},
		func() { got = append(got, fmt.Sprint("ended ", c.Busy("a"))) })
	for range 2 {
		if _, err := c.Commit(t.Context(), journal.Commit{Space: "a"}, 1); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"written 1", "ended 0", "written 2", "ended 0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheBytesOfABatchAreBounded(t *testing.T) {
	b := &backend{}
	c := start(t, b, unheard, func() {})
	half := maxBatchBytes/2 + 1
	if _, err := c.CommitAll(t.Context(), commits("a", "a", "a", "a"), []int{half, half, 3 * maxBatchBytes, 1}); err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 1, 1, 1}; !slices.Equal(b.batches, want) {
		t.Errorf("batches of %v commits, want %v", b.batches, want)
	}
}

// What became of a commit with an Err is unknown, so it is told apart from those that
// were acknowledged.
func TestACommitWithAnErrorIsToldApart(t *testing.T) {
	tests := []struct {
		name    string
		fail    error
		failing string
		want    []string
	}{
		{"none fails", nil, "", []string{"[a b c] 3 true"}},
		{"one fails", nil, "b", []string{"[b] 0 false", "[a c] 2 true"}},
		{"the batch fails", journal.ErrUnavailable, "b", []string{"[a b c] 3 false"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			b := &batcher{
				backend: &backend{fail: tt.fail, failing: tt.failing}, ended: func() {},
				written: func(batch []journal.Commit, results []journal.Result, err error) {
					var names []string
					for _, c := range batch {
						names = append(names, c.Space)
					}
					got = append(got, fmt.Sprint(names, len(results), err == nil))
				},
			}
			b.write(nil, commits("a", "b", "c"))
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The shards write beside each other, but what they have written is told one by one.
func TestBatchesOfTwoShardsAreToldOneAfterTheOther(t *testing.T) {
	var telling atomic.Int32
	c := start(t, &backend{}, func([]journal.Commit, []journal.Result, error) {
		if n := telling.Add(1); n != 1 {
			t.Errorf("%d batches are told at a time, want 1", n)
		}
		for range 100 {
			runtime.Gosched() // the other shard's writer may run
		}
		telling.Add(-1)
	}, func() {})
	var callers sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		callers.Go(func() {
			for range 100 {
				if _, err := c.Commit(t.Context(), journal.Commit{Space: name}, 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
}

// ErrClosed says that nothing was applied, so it must not be said when a part was queued.
func TestABatchThatWasQueuedInPartIsNotErrClosed(t *testing.T) {
	c := start(t, &backend{}, unheard, func() {})
	c.batchers[1].close()
	if _, err := c.CommitAll(t.Context(), commits("a", "b"), []int{1, 1}); errors.Is(err, journal.ErrClosed) || !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	c.Close()
	if _, err := c.CommitAll(t.Context(), commits("a", "b"), []int{1, 1}); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}
