package journal

import (
	"context"
)

// Backend stores spaces. Implementations handle bytes and order; everything else
// (validation, batching, leases, expiry, fan-out) happens once, in package thole.
//
// Base: the state of a space is the result of its commits, applied in order. All
// methods see the same state of a space and are safe for concurrent use. They copy
// bytes at the border: once a method has returned, the caller may change its arguments
// and its results.
//
// Order: seqs are dense per space, in commit order; each event takes one, a commit
// without events takes one. Once a reader has seen a seq, no smaller one appears.
// Clocks order nothing.
//
// Durability: when Commit returns, its successful commits have the durability that the
// backend declares in its [Capabilities].
//
// Package backend/backendtest checks every line of this contract.
type Backend interface {
	// Commit applies each commit of the batch independently, in order, and returns one
	// Result for each. The checks of a commit see the commits before it. A commit that
	// fails changes nothing and does not affect the others. The first successful commit
	// to a space creates it, with a new epoch of generation 1. A commit that the
	// backend cannot apply (the space is damaged or has no positions left, or the
	// engine cannot store a name) has the error in its Result's Err. If a Backend
	// consists of several and one fails, the Results of that one's commits have its
	// error, and it is unknown which of them were applied.
	//
	// Checks are evaluated in order; the first that does not hold is the Result's
	// Conflict. A check or a write that touches a Notify record with Expires ≤
	// Commit.Now is a conflict with Expired set (checks come first). To a check, any
	// other record with Expires ≤ Commit.Now is absent. Deleting an absent key does
	// nothing.
	//
	// Every event gets Commit.Now, Actor and Cause and the next position; every
	// written record gets the commit's Last position as its version and
	// Commit.Now as Updated. An error means that it is unknown which commits of
	// the batch were applied.
	Commit(ctx context.Context, batch []Commit) ([]Result, error)

	// Get returns one Record for each key, in the order of the keys; an absent record
	// is the zero Record. Expired records are returned like others.
	Get(ctx context.Context, space string, keys ...string) ([]Record, error)

	// List returns records in the byte order of their keys.
	List(ctx context.Context, space string, q ListQuery) ([]Record, error)

	// Read returns a page of events. A cursor that cannot be resumed (see
	// Head.Resume, with q.After) is a *TrimmedError.
	Read(ctx context.Context, space string, q ReadQuery) (Page, error)

	// Heads returns one Head for each space, in order. A space that does not exist has
	// only its name. A Backend that consists of several returns the Heads from those
	// that answer, the zero Head for the other spaces, and an *UnreachableError.
	Heads(ctx context.Context, spaces ...string) ([]Head, error)

	// Spaces lists the names of spaces that exist, in byte order. A Backend that
	// consists of several lists the spaces of those that answer and returns an
	// *UnreachableError that names the others.
	Spaces(ctx context.Context, q SpacesQuery) ([]string, error)

	// Load imports a part of a space with its positions, versions and times. The space
	// must not exist before the first chunk, and no other method shows anything of it
	// before the chunk with Done. A chunk whose Head differs from that of the first
	// starts the import over. A chunk that [Chunk.Validate] rejects is ErrInvalid and
	// changes nothing.
	Load(ctx context.Context, space string, c Chunk) error

	// Purge durably removes what p names. It takes no position. It returns ErrNotFound
	// if the space does not exist.
	Purge(ctx context.Context, space string, p Purge) error

	// Capabilities returns what else the backend can do at this time.
	Capabilities() Capabilities

	// Close is idempotent, waits for what the backend started and leaves no goroutine
	// behind. Afterwards all methods return ErrClosed.
	Close() error
}
