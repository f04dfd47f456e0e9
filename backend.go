package thole

import (
	"context"
	"encoding/json"
	"time"
)

// Limits of what a commit may carry. The Store enforces them (ErrTooLarge), so
// a Backend never sees more. Larger content is a blob.
const (
	MaxNameBytes   = 256       // of a key, a stream or a type
	MaxValueBytes  = 512 << 10 // of an event's data or a record's value
	MaxCommitItems = 256       // checks + events + writes
	MaxCommitBytes = 4 << 20
	MaxPage        = 1000 // of a list or a read; a larger or zero Limit means this
)

// Backend keeps spaces. Implementations know bytes and order; everything else
// (validation, batching, leases, expiry, fan-out) happens once, in [Store].
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
// that the backend declares (see [Durable]).
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

	// Close is idempotent, waits for what the backend started and leaves no
	// goroutine. Methods called afterwards return ErrClosed.
	Close() error
}

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

// Event is an immutable fact in a journal.
type Event struct {
	Position Position        `json:"position"`
	Stream   string          `json:"stream"`
	Type     string          `json:"type"` // "noun.verb", such as "message.added"
	Time     time.Time       `json:"time"` // for people; orders nothing. Microseconds, UTC
	Actor    string          `json:"actor,omitempty"`
	Cause    string          `json:"cause,omitempty"`   // the request, run or event it came from
	Subject  string          `json:"subject,omitempty"` // the person whose data it holds
	Refs     []string        `json:"refs,omitempty"`    // ids it refers to
	Schema   int             `json:"schema,omitempty"`  // version of Data's shape
	Data     json.RawMessage `json:"data,omitempty"`    // nil after redaction
}

// Record is the current value under a key.
type Record struct {
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value"`
	Schema  int             `json:"schema,omitempty"`
	Version Position        `json:"version"`          // Last of the commit that wrote it; zero: absent
	Updated time.Time       `json:"updated"`          // Commit.Now of that commit
	Expires time.Time       `json:"expires,omitzero"` // zero: never. Microseconds, UTC
	Notify  bool            `json:"notify,omitempty"`

	pending bool // put by the Tx that reads it, not committed yet
}

// Exists reports whether there is a record.
func (r Record) Exists() bool { return r.pending || !r.Version.IsZero() }

// Expired reports whether the record's time was up at now.
func (r Record) Expired(now time.Time) bool {
	return !r.Expires.IsZero() && !r.Expires.After(now)
}

// Check is a condition on one stream or one record: that its version is At.
// A stream's version is the position of its last event. A zero At means that
// it must be absent: no such record, no event in the stream.
type Check struct {
	Stream string   `json:"stream,omitempty"` // exactly one of Stream and Key is set
	Key    string   `json:"key,omitempty"`
	At     Position `json:"at"`
}

// Write sets or deletes a record.
type Write struct {
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value"` // nil deletes
	Schema  int             `json:"schema,omitempty"`
	Expires time.Time       `json:"expires,omitzero"` // zero: never
	Notify  bool            `json:"notify,omitempty"` // its expiry becomes an event, and nothing touches it between
}

// Commit is what is applied together or not at all. It holds at least one
// event or write; the keys of its writes are distinct.
type Commit struct {
	Space  string
	Now    time.Time // from the Store's one clock, never decreasing in a process
	Actor  string
	Cause  string
	Checks []Check
	Events []Event // Position, Time, Actor and Cause are filled on commit
	Writes []Write
}

// Result is what became of one Commit.
type Result struct {
	First    Position // position of the first event
	Last     Position // position of the last event, and version of what was written
	Conflict *ConflictError
	Err      error  // why it was not acknowledged. Of a Backend and of [Store.Apply] only
	Repeated bool   // set by the Store: an earlier call under the same idempotency key did it
	Answer   string // of a repeat: the JSON that [Tx.Answer] kept then
}

// ReadQuery selects events. Its zero value reads from the oldest. All set
// fields must match.
type ReadQuery struct {
	Stream   string    // exactly this stream; "": all
	After    Position  // only events after it; it must be resumable
	Before   Position  // only events before it; zero: no bound
	Backward bool      // newest first
	Limit    int       // at most this many, 1…MaxPage; 0: MaxPage
	Types    []string  // one of these; "noun.*" matches any verb. Empty: all
	Actor    string    // exactly
	Subject  string    // exactly
	Since    time.Time // Time ≥ Since
	Until    time.Time // Time < Until
}

// Page is a part of a journal. A backend bounds its work per page, so with a
// filter it may return fewer events than the limit, even none, before the end.
type Page struct {
	Events []Event
	Next   Position // pass as After (backward: as Before) to go on; zero: there is no more now
}

// ListQuery selects records by key.
type ListQuery struct {
	Prefix string    // "" or ending in "/"
	After  string    // only keys greater than it
	Limit  int       // 1…MaxPage; 0: MaxPage
	DueBy  time.Time // only records with Expires ≤ DueBy; zero: all
}

// SpacesQuery selects spaces by name.
type SpacesQuery struct {
	After string
	Limit int       // 1…MaxPage; 0: MaxPage
	DueBy time.Time // only spaces that hold a record with Expires ≤ DueBy; may name too many, never too few
}

// Purge names what to remove from a space. Only one of its fields is set, but for
// UpTo, which bounds Streams: a stream with later events keeps them and its version.
// Nothing is removed from a space that never had the position, such as one that was
// made anew meanwhile.
type Purge struct {
	All     bool       // the whole space; committing to it again starts a new epoch
	Before  Position   // events before it; it becomes the head's Oldest
	Streams []string   // all events of these streams; their version becomes absent
	UpTo    Position   // of Streams: only events up to it; zero: all
	Events  []Position // the data, actor, cause, subject and refs of these events; position, type, stream and time stay
}

// Chunk is a part of an imported space. Events come in order over all chunks;
// records in any order.
type Chunk struct {
	Head    Head
	Events  []Event
	Records []Record
	Done    bool
}
