package journal

import (
	"context"
)

// Backend keeps spaces. Implementations know bytes and order; everything else
// (validation, batching, leases, expiry, fan-out) happens once, in package thole.
//
// Base: the state of a space is what its committed commits made of it, in
// order. All methods see one state per space; each is safe for concurrent use
// and copies bytes at the border: the caller may change what it passed once a
// method returned, and may change what it was given.
//
// Order: seqs are dense per space, in commit order; each event takes one, a
// commit without events takes one. Once a reader saw a seq it will never see a
// smaller one appear. Clocks order nothing.
//
// Durability: when Commit returns, its successful commits have the durability
// that the backend declares (see [Capabilities]).
//
// Package backend/backendtest checks every line of this contract.
type Backend interface {
	// Commit applies each commit of the batch on its own, in order, and returns
	// one Result for each: an earlier one is visible to the checks of a later
	// one, and a failed one changes nothing and fails no other. A space is
	// created by its first successful commit, with a new epoch of generation 1.
	// A commit that cannot be taken (its space is damaged or has no positions left, a
	// name is none that the engine keeps) is such a failed one: it has that error in
	// its Result's Err. When one of several backends as one fails, its commits have
	// its error there, and it is unknown which of them were applied.
	//
	// Checks are evaluated in order; the first that does not hold is the
	// Result's Conflict. A check or a write that touches a Notify record with
	// Expires ≤ Commit.Now is a conflict with Expired set (checks come first).
	// Any other record with Expires ≤ Commit.Now counts as absent to a check.
	// Deleting an absent key does nothing.
	//
	// Every event gets Commit.Now, Actor and Cause and the next position; every
	// written record gets the commit's Last position as its version and
	// Commit.Now as Updated. An error means that it is unknown which commits of
	// the batch were applied.
	Commit(ctx context.Context, batch []Commit) ([]Result, error)

	// Get returns one Record for each key, in the order of the keys; an absent
	// one is the zero Record. Expired records are returned as they are.
	Get(ctx context.Context, space string, keys ...string) ([]Record, error)

	// List returns records in the byte order of their keys.
	List(ctx context.Context, space string, q ListQuery) ([]Record, error)

	// Read returns a page of events. A cursor that cannot be resumed (see
	// Head.Resume, with q.After) is a *TrimmedError.
	Read(ctx context.Context, space string, q ReadQuery) (Page, error)

	// Heads returns one Head for each space, in order. A space that does not
	// exist has only its name. Several backends as one give the Heads of those
	// that answer, for the others the zero Head, and an *UnreachableError.
	Heads(ctx context.Context, spaces ...string) ([]Head, error)

	// Spaces lists the names of spaces that exist, in byte order. Several
	// backends as one list those of the ones that answer, and return an
	// *UnreachableError that names the others.
	Spaces(ctx context.Context, q SpacesQuery) ([]string, error)

	// Load imports a part of a space with its positions, versions and times.
	// The space must not exist before the first chunk; nothing of it is
	// visible in any other method before the chunk with Done. A chunk whose
	// Head differs from the first one's starts the import over. A chunk that
	// [Chunk.Validate] refuses is ErrInvalid and changes nothing.
	Load(ctx context.Context, space string, c Chunk) error

	// Purge removes what p names, durably, and does not take a position. It is
	// ErrNotFound for a space that does not exist.
	Purge(ctx context.Context, space string, p Purge) error

	// Capabilities says what else the backend can do, now.
	Capabilities() Capabilities

	// Close is idempotent, waits for what the backend started and leaves no
	// goroutine. Methods called afterwards return ErrClosed.
	Close() error
}
