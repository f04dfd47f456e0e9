package journal

import (
	"context"
	"time"
)

// Capabilities describes what a [Backend] can do beyond its methods. If a function is
// nil, the backend does not have that capability.
//
// A Backend that wraps other Backends builds its Capabilities from the zero value and
// sets each field: its users do not have what it does not pass on. A test of this
// module fails until every field is set.
type Capabilities struct {
	// Durability is what an acknowledged commit survives. Every backend sets it.
	Durability Durability

	// Hints calls wake when another process may have committed to a space, and returns
	// nil when ctx ends. Hints may be repeated, merged or lost. A hint comes only once
	// the commit can be read. An empty space means "check all".
	Hints func(ctx context.Context, wake func(space string)) error

	// SendBroadcasts sends broadcasts to the other processes that share the backend,
	// and possibly to this one. They may be lost. One goroutine at a time calls it. A
	// backend has this and ReceiveBroadcasts, or neither.
	SendBroadcasts func(ctx context.Context, list []Broadcast) error

	// ReceiveBroadcasts calls hear with each broadcast sent from now on, one at a time
	// and in the order of each sender, and returns nil when ctx ends.
	ReceiveBroadcasts func(ctx context.Context, hear func(Broadcast)) error

	// Shards is the number of backends that this one consists of, each with its own
	// spaces; 0 counts as 1. A Store makes separate batches for each shard, so that a
	// slow or failing shard does not affect the others. Shard returns the shard of a
	// space, 0…Shards−1. Neither ever changes.
	Shards int
	Shard  func(space string) int

	// Check examines the stored bytes and returns what is wrong with them.
	Check func(ctx context.Context) error

	// Stopped waits until the backend stops because its disk failed, and returns why.
	// It returns nil if ctx ends or the backend is closed first. A stopped backend
	// fails every call with that error until another process opens it.
	Stopped func(ctx context.Context) error

	// Report returns one line for each repair or adoption since the backend was opened.
	Report func() []string
}

// Durability is what an acknowledged commit survives.
type Durability string

// The grades of durability, strongest first.
const (
	Sync       Durability = "sync"       // on stable storage: survives power loss
	Replicated Durability = "replicated" // a majority has it; lost if a majority loses power
	Relaxed    Durability = "relaxed"    // in the engine's cache: survives a crash of this process
	None       Durability = "none"       // in this process's memory
)

// Broadcast is a live-only message on its way between processes.
type Broadcast struct {
	Origin string `json:"origin"` // the Store that sent it, then those that forwarded it
	Space  string `json:"space"`
	Event  Event  `json:"event"` // without a position
}

// HintsByCount implements [Capabilities].Hints for a backend that can only count the
// changes of others. It calls count at every interval, and wake("") when the count has
// changed. It returns nil when ctx ends or closed is closed.
func HintsByCount(ctx context.Context, closed <-chan struct{}, interval time.Duration, count func() uint64, wake func(space string)) error {
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
