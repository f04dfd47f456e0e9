package journal

import (
	"context"
	"time"
)

// Watcher is an optional ability of a Backend: hints that another process may
// have committed.
type Watcher interface {
	// Watch calls wake until ctx ends, then returns nil. Hints may repeat,
	// coalesce or be lost; they come only after the commit can be read. An
	// empty space means "check all".
	Watch(ctx context.Context, wake func(space string)) error
}

// Sharded is an optional ability of a Backend: to be several, of which each has
// its own spaces. A Store makes batches for each on its own, so that a slow one
// holds no other up and an error of one is no other's.
type Sharded interface {
	Shards() int            // at least 1, always the same
	Shard(space string) int // 0…Shards−1, always the same for one space
}

// Relay is an optional ability of a Backend: to carry signals between the
// processes that share it. They may get lost; nothing depends on them.
type Relay interface {
	// Send passes signals on to who receives in other processes, and may pass
	// them to this one. It is called by one goroutine at a time.
	Send(ctx context.Context, signals []Signal) error

	// Receive calls hear with what is sent from now on, one at a time and in the
	// order of each sender, until ctx ends, then returns nil.
	Receive(ctx context.Context, hear func(Signal)) error
}

// Signal is a live-only message on its way between processes.
type Signal struct {
	Origin string `json:"origin"` // names the Store that sent it, then those that passed it on
	Space  string `json:"space"`
	Event  Event  `json:"event"` // without a position
}

// Durable is an optional ability of a Backend: to say what an acknowledged
// commit survives. A Backend without it counts as Sync.
type Durable interface{ Durability() Durability }

// Durability is what an acknowledged commit survives.
type Durability string

// The grades of durability, strongest first.
const (
	Sync       Durability = "sync"       // on stable storage: survives power loss
	Replicated Durability = "replicated" // a majority has it; lost if a majority loses power
	Relaxed    Durability = "relaxed"    // in the engine's cache: survives a crash of this process
	None       Durability = "none"       // in this process's memory
)

// WatchCount is [Watcher] for a backend that can only count what others were seen
// to do: it asks at every interval and calls wake("") when the count is another
// one. It returns nil when ctx ends or closed is closed.
func WatchCount(ctx context.Context, closed <-chan struct{}, interval time.Duration, count func() uint64, wake func(space string)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	seen := count()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		case <-closed:
			return nil
		}
		if now := count(); now != seen {
			seen = now
			wake("")
		}
	}
}
