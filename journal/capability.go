package journal

import (
	"context"
	"time"
)

// Capabilities say what a [Backend] can do beyond what all can. A function that is
// nil is a capability that the backend does not have.
//
// A Backend around Backends makes its own from the zero value and decides on each
// field: what it does not pass on, its users do not have. A test of this module
// fails until it does.
type Capabilities struct {
	// Durability is what an acknowledged commit survives. Every backend says it.
	Durability Durability

	// Hints calls wake when another process may have committed to a space, until
	// ctx ends; then it returns nil. Hints may repeat, coalesce or be lost; they
	// come only after the commit can be read. An empty space means "check all".
	Hints func(ctx context.Context, wake func(space string)) error

	// SendBroadcasts passes broadcasts on to the other processes that share the
	// backend, and may pass them to this one. They may get lost. It is called by
	// one goroutine at a time. A backend has this and ReceiveBroadcasts, or neither.
	SendBroadcasts func(ctx context.Context, list []Broadcast) error

	// ReceiveBroadcasts calls hear with what is sent from now on, one at a time and
	// in the order of each sender, until ctx ends; then it returns nil.
	ReceiveBroadcasts func(ctx context.Context, hear func(Broadcast)) error

	// Shards is how many backends this one consists of, each with spaces of its
	// own; 0 counts as 1. A Store makes batches for each, so that a slow shard does
	// not hold up the others, nor fail with them. Shard returns the shard of a
	// space, 0…Shards−1. Both always say the same.
	Shards int
	Shard  func(space string) int

	// Check examines the stored bytes and returns what is wrong with them.
	Check func(ctx context.Context) error

	// Stopped waits until the backend stopped because its disk failed, and returns
	// why; nil when ctx ends or the backend is closed before. One that stopped refuses
	// everything with that error: it is for the next process to open it.
	Stopped func(ctx context.Context) error

	// Report returns what was repaired and adopted since the backend was opened, a
	// line for each.
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
	Origin string `json:"origin"` // names the Store that sent it, then those that passed it on
	Space  string `json:"space"`
	Event  Event  `json:"event"` // without a position
}

// HintsByCount makes [Capabilities].Hints for a backend that can only count what
// others were seen to do: it asks at every interval and calls wake("") when the
// count is another one. It returns nil when ctx ends or closed is closed.
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
