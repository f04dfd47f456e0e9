// Package thread keeps conversations. A thread is the record thread/<id> (the head:
// title, status, counts, …) and the stream thread/<id>, which holds everything that was
// said and done in it. Turns and messages are built from that stream, which is read
// backward, a window at a time. Every block's bytes are stored once, in the event that
// added them.
//
// Other records that belong to a thread have keys below thread/<id>/ and are deleted
// with it.
//
// Private threads are hidden only at the borders: the REST API, the streams of events
// and narrowed tokens show them to their owner and to admins alone. This package hides
// nothing: a program that holds a Space lists, reads and watches all threads, whoever
// it acts as. A program that serves others must ask [Threads.MayKnow].
package thread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// Status of a thread.
const (
	Idle    = "idle"    // no run is active
	Busy    = "busy"    // a run is active
	Waiting = "waiting" // its run waits for a signal
)

// Visibility of a thread: who may know of it and of what belongs to it. See [VisibleTo].
const (
	ForSpace = "space"   // every reader of the space sees it
	Private  = "private" // its owner sees it, admins of the space, and the workers of its runs
)

// Run scopes: where at most one run is active at a time.
const (
	PerThread = "thread" // the default
	PerUser   = "user"   // among all threads of the owner that have this scope
)

// maxMetadata bounds a thread's metadata, which each message rewrites.
const maxMetadata = 16 << 10

// maxTitle bounds a thread's title, which each message rewrites, too.
const maxTitle = 4 << 10

// ownerName is the kind of owners' names. Package run uses them in the keys of slots.
var ownerName = thole.NameKind{What: "owner", Keys: []string{"slot/*"}}

// maxTTL is in seconds.
const maxTTL = int64(thole.MaxTTL / time.Second)

// Thread is the head of a thread: everything but its history.
type Thread struct {
	Head
	Updated time.Time      `json:"updated_at,omitzero" given:"always"`
	Version thole.Position `json:"version,omitzero" given:"always"` // of the head record, for IfMatch
}

// Head is what a thread's record holds. It is also the data of thread.created.
type Head struct {
	ID         string                     `json:"id,omitempty" given:"always"`
	Assistant  string                     `json:"assistant,omitempty"` // the agent that answers in it
	Title      string                     `json:"title,omitempty" names:"shown"`
	Status     string                     `json:"status,omitempty" given:"always"`     // idle, busy or waiting
	Visibility string                     `json:"visibility,omitempty" given:"always"` // space or private
	Owner      string                     `json:"owner,omitempty"`                     // the actor it belongs to
	Metadata   map[string]json.RawMessage `json:"metadata,omitempty" names:"shown"`
	TTL        int64                      `json:"ttl,omitempty"`                       // seconds after its last change; 0: it does not expire
	RunScope   string                     `json:"run_scope,omitempty"`                 // thread (or empty) or user
	Parent     string                     `json:"parent,omitempty" names:"omitted"`    // the thread whose sub-agent works in this one
	Depth      int                        `json:"depth,omitempty" names:"with Parent"` // how many threads are above it
	ActiveRun  string                     `json:"active_run,omitempty"`
	Turns      int                        `json:"turn_count"`
	Messages   int                        `json:"message_count"` // so far, including those rolled back
	Created    time.Time                  `json:"created_at"`

	// The last turn; earlier ones no longer change.
	LastTurn   string `json:"last_turn,omitempty"`
	TurnStatus string `json:"turn_status,omitempty"` // pending, streaming, or "": it has ended
}

// Threads are the threads of one space. The handle is cheap and immutable.
type Threads struct{ sp *thole.Space }

// In returns the threads of sp, whose store must have been given [Concept]. Writes carry
// sp's actor, cause and fences.
func In(sp *thole.Space) *Threads { return &Threads{sp: sp.For(Name)} }

// Key returns the key of a thread's head record, which is also the name of its
// stream.
func Key(id string) string { return "thread/" + id }

// CreateOptions describe a new thread. The zero value is an untitled thread that every
// reader of the space sees and that does not expire. The tags are for requests that
// create a thread.
type CreateOptions struct {
	Assistant  string                     `json:"assistant,omitempty" doc:"the agent that answers in it"`
	Title      string                     `json:"title,omitempty" example:"Shop"`
	Visibility string                     `json:"visibility,omitempty" enum:"space|private" doc:"who sees it: all readers of the space, or its owner and admins; absent: space"`
	Metadata   map[string]json.RawMessage `json:"metadata,omitempty"`
	RunScope   string                     `json:"run_scope,omitempty" enum:"thread|user" doc:"thread (default): one active run in this thread; user: one active run in all threads of the owner that have user"`
	Parent     string                     `json:"parent,omitempty" doc:"the thread of the run whose sub-agent works in it: it begins as private, is of the same owner, and is destroyed with that thread"`
	Owner      string                     `json:"-"` // default: the actor, or the owner of Parent
	TTL        time.Duration              `json:"-"` // from the last change to the thread or what belongs to it (expires up to a tenth later); whole seconds, rounded up; 0: it does not expire
}

// MaxDepth is how many threads may be above a thread.
const MaxDepth = 32

// Below returns the options of a thread for a sub-agent of a run in parent: private, with
// parent's owner and ttl.
func Below(parent *Thread) CreateOptions {
	return CreateOptions{Visibility: Private, Owner: parent.Owner, TTL: time.Duration(parent.TTL) * time.Second, Parent: parent.ID}
}

// Create creates a thread and emits thread.created. Nil opts mean the defaults. A repeat
// under an idempotency key returns the first call's thread. Errors: ErrNotFound for a
// missing Parent; ErrInvalid; ErrTooLarge for metadata over 16 KiB, a title over 4 KiB,
// or a Parent that is MaxDepth deep.
func (ts *Threads) Create(ctx context.Context, opts *CreateOptions) (*Thread, error) {
	ctx = thole.Call(ctx, "thread.create")
	ctx = thole.Reread(ctx, ts.rereadCreated)
	var o CreateOptions
	if opts != nil {
		o = *opts
	}
	if o.Owner == "" && o.Parent == "" {
		o.Owner = ts.sp.Actor()
	}
	made, r, err := thole.Update(ctx, ts.sp, func(tx *thole.Tx) (*Thread, error) { return Create(tx, o) })
	if err != nil {
		return nil, fmt.Errorf("create thread: %w", err)
	}
	made.Version, made.Updated = r.Last, made.Created
	return made, nil
}

// Create is [Threads.Create] within tx; Owner has no default.
func Create(tx *thole.Tx, o CreateOptions) (*Thread, error) {
	t := &Thread{Head: Head{
		ID: thole.NewID("thrd"), Assistant: o.Assistant, Title: o.Title, Visibility: o.Visibility, Owner: o.Owner,
		Metadata: o.Metadata, TTL: wholeSeconds(o.TTL), RunScope: o.RunScope, Parent: o.Parent, Status: Idle, Created: tx.Now(),
	}}
	if t.Visibility == "" {
		t.Visibility = ForSpace
		if t.Parent != "" {
			t.Visibility = Private
		}
	}
	err := errors.Join(thole.AgentName.CheckOptional(o.Assistant), ownerName.CheckOptional(o.Owner), checkTitle(o.Title), t.check())
	if err != nil {
		return nil, err
	}
	if _, err := tx.Get(Key(t.ID)); err != nil {
		return nil, err
	}
	if t.Parent != "" {
		above, err := Load(tx, t.Parent)
		switch {
		case err != nil: // also: nothing is written below a destroyed thread
			return nil, err
		case above.Depth >= MaxDepth:
			return nil, fmt.Errorf("%w: thread %s is %d deep, and none may be deeper", thole.ErrTooLarge, above.ID, MaxDepth)
		case t.Visibility != Private || t.Owner != "" && t.Owner != above.Owner:
			return nil, fmt.Errorf("%w: a sub-agent's thread begins as private and is of %q, the owner of %s", thole.ErrInvalid, above.Owner, above.ID)
		case t.RunScope == PerUser: // a run above may hold the owner's slot and wait for a run here
			return nil, fmt.Errorf("%w: a sub-agent's thread has a line of runs of its own, not run scope user", thole.ErrInvalid)
		}
		t.Owner, t.Depth = above.Owner, above.Depth+1
		tx.Put(Key(t.Parent)+"/child/"+t.ID, struct{}{}, nil)
		above.put(tx) // so that a concurrent Destroy of it sees this child
	}
	t.put(tx)
	tx.Emit(Key(t.ID), "thread.created", t.Head)
	return t, nil
}

func checkTitle(title string) error {
	if len(title) > maxTitle {
		return fmt.Errorf("%w: title has %d bytes, the limit is %d", thole.ErrTooLarge, len(title), maxTitle)
	}
	return nil
}

// wholeSeconds returns d in seconds, rounded away from zero.
func wholeSeconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	switch rest := d % time.Second; {
	case rest > 0:
		n++
	case rest < 0:
		n--
	}
	return n
}

func (t *Thread) check() error {
	switch {
	case t.Visibility != ForSpace && t.Visibility != Private:
		return fmt.Errorf("%w: visibility %.40q is neither space nor private", thole.ErrInvalid, t.Visibility)
	case t.TTL < 0 || t.TTL > maxTTL:
		return fmt.Errorf("%w: ttl %d is not 0 to %d seconds", thole.ErrInvalid, t.TTL, maxTTL)
	case t.RunScope != "" && t.RunScope != PerThread && t.RunScope != PerUser:
		return fmt.Errorf("%w: run scope %.40q is neither thread nor user", thole.ErrInvalid, t.RunScope)
	}
	if t.Parent != "" {
		if err := thole.CheckID("thrd", t.Parent); err != nil {
			return err
		}
	}
	size := 0
	for k, v := range t.Metadata {
		size += len(k) + len(v)
		if err := journal.CheckJSON("metadata "+k, v); err != nil {
			return err
		}
	}
	if size > maxMetadata {
		return fmt.Errorf("%w: metadata has %d bytes, the limit is %d", thole.ErrTooLarge, size, maxMetadata)
	}
	return nil
}

// put writes the head without defaults and without what the record itself holds. While a
// run is active, the thread does not expire; its ttl counts from the run's end.
func (t *Thread) put(tx *thole.Tx) {
	stored := t.Head
	stored.ID = ""
	if stored.Status == Idle {
		stored.Status = ""
	}
	if stored.Visibility == ForSpace {
		stored.Visibility = ""
	}
	opts := thole.WriteOptions{Schema: thole.Schema}
	if t.TTL > 0 && t.ActiveRun == "" {
		opts.Expires, opts.Notify = tx.Expiry(time.Duration(t.TTL)*time.Second), true
	}
	tx.Put(Key(t.ID), &stored, &opts)
}

func decode(id string, rec thole.Record) (*Thread, error) {
	if rec.Value == nil {
		return nil, fmt.Errorf("thread %s: %w", id, thole.ErrNotFound)
	}
	var t Thread
	if err := rec.As(&t.Head); err != nil {
		return nil, err
	}
	t.ID, t.Updated, t.Version = id, rec.Updated, rec.Version
	t.TTL = min(t.TTL, maxTTL) // one of an earlier version may be longer than a time.Duration
	if t.Status == "" {
		t.Status = Idle
	}
	if t.Visibility == "" {
		t.Visibility = ForSpace
	}
	return &t, nil
}

// Get returns the thread. Errors: ErrNotFound, ErrInvalid for a bad id.
func (ts *Threads) Get(ctx context.Context, id string) (*Thread, error) {
	if err := thole.CheckID("thrd", id); err != nil {
		return nil, err
	}
	rec, err := ts.sp.Get(ctx, Key(id))
	if err != nil {
		return nil, err
	}
	return decode(id, rec)
}

// Load is [Threads.Get] within tx. If the head changes before the commit, tx runs again.
func Load(tx *thole.Tx, id string) (*Thread, error) {
	if err := thole.CheckID("thrd", id); err != nil {
		return nil, err
	}
	rec, err := tx.Get(Key(id))
	if err != nil {
		return nil, err
	}
	return decode(id, rec)
}

// SetActive records within tx which run is active in the thread ("" for none) and the
// thread's status. It emits nothing, because the run's own events report it; but an open turn
// of another run, which ended while the thread could not be read, ends as interrupted.
func SetActive(tx *thole.Tx, id, run, status string) error {
	t, err := Load(tx, id)
	if err != nil {
		return err
	}
	if t.TurnStatus == Streaming && t.ActiveRun != run {
		t.endTurn(tx, Interrupted, nil)
	}
	t.ActiveRun, t.Status = run, status
	t.put(tx)
	return nil
}
