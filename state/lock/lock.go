// Package lock keeps named locks, such as one per file that agents and people
// edit. A lock is a lease: a dead holder frees it. It has a fencing token: what
// a replaced holder commits under its fence fails with ErrFenced. Waiters are
// served in the order they came, and a wait that could never end is ErrDeadlock.
//
// Records, with <lock> being lock/<escaped name>:
//
//	<lock>/owner, <lock>/beat     the exclusive lease (see thole.Tx.Acquire)
//	<lock>/queue                  who waits, in order
//	<lock>/wait/<ticket>          a waiter's sign of life; it expires
//	<lock>/intent/<owner>/owner…  an announced intent, a lease of its own
//	lockwaits/<actor>/<owner>     what an owner waits for: the wait-for graph
//
// Events lock.acquired, lock.released and lock.expired go to stream
// lock/<escaped name>.
package lock

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/thole-dev/thole"
)

// The types of this package's events; each holds a [Change].
const (
	TypeAcquired = "lock.acquired" // its position is the fencing token
	TypeReleased = "lock.released"
	TypeExpired  = "lock.expired"
)

// DefaultTTL is how long a lock is held without being renewed.
const DefaultTTL = 30 * time.Second

// Mode is how a lock is held.
type Mode string

// The modes of a lock.
const (
	Exclusive Mode = "exclusive" // by one owner at a time
	Intent    Mode = "intent"    // advisory: by any number, announced to others and in no one's way
)

// Change is the data of this package's events.
type Change struct {
	Name  string `json:"name"`
	Owner string `json:"owner"`
	Mode  Mode   `json:"mode"`
}

// Locks are the locks of one space.
type Locks struct{ sp *thole.Space }

// In returns the locks of sp, whose store was given [Concept].
func In(sp *thole.Space) *Locks { return &Locks{sp: sp.For(Name)} }

// Options of [Locks.Acquire].
type Options struct {
	// Owner is who holds the lock: one thing that does one step at a time, such
	// as a tool call. Two calls with the same owner exclude each other like any
	// two, and an owner that waits for itself is a deadlock. Default: the
	// handle's actor and a new id, which are in no one's way but are not seen
	// as the same owner in a search for deadlocks. Others see the name, so it
	// proves nothing: the same owner under another actor is another owner.
	Owner string
	TTL   time.Duration // how long without renewal, up to thole.MaxLease; default DefaultTTL
	// Wait bounds the wait for others: 0 does not wait, negative waits until
	// ctx ends.
	Wait time.Duration
	Mode Mode // default Exclusive
	// Again takes a lock that Owner itself holds anew, such as after a restart:
	// the earlier holder is fenced. It takes the same actor (see thole.Space.As),
	// or a handle under the lock's fence, whose commits fail from then on, as the
	// earlier holder's do: renew and release through another. Otherwise it is ErrDeadlock, or ErrConflict
	// without Wait.
	Again bool
	// Dead, if set, reports whether an owner is known to be dead for good: its lock is
	// taken over and its place in the queue passed over, although it gave a sign of
	// life not long ago. It is asked about those who are in the way, outside of a Tx.
	Dead func(ctx context.Context, owner string) bool
}

func (o *Options) complete(sp *thole.Space) error {
	if o.Owner == "" {
		o.Owner = sp.Actor() + "/" + thole.NewID("own")
	}
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.Mode == "" {
		o.Mode = Exclusive
	}
	if o.TTL < time.Millisecond || o.TTL > thole.MaxLease {
		return fmt.Errorf("%w: a lock's ttl is 1ms to %v, not %v", thole.ErrInvalid, thole.MaxLease, o.TTL)
	}
	if o.Mode != Exclusive && o.Mode != Intent {
		return fmt.Errorf("%w: lock mode %.40q is neither %s nor %s", thole.ErrInvalid, o.Mode, Exclusive, Intent)
	}
	return ownerName.Check(o.Owner)
}

// The kinds of names of this package.
var (
	lockName   = thole.NameKind{What: "lock", Keys: []string{signKey("lock/*", thole.NewID("wait"))}}
	ownerName  = thole.NameKind{What: "owner of a lock", Keys: []string{"lockwaits/*"}}
	intentName = thole.NameKind{What: "lock and owner", Keys: []string{"lock/*/intent/*/owner"}}
)

// HeldError says who has the lock. It unwraps to ErrConflict.
type HeldError struct {
	Name    string
	Owner   string // "": nobody, but others wait for it
	Waiters int    // before the caller
}

func (e *HeldError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("lock %q: %d others wait for it", e.Name, e.Waiters)
	}
	return fmt.Sprintf("lock %q is held by %s, %d others wait for it", e.Name, e.Owner, e.Waiters)
}

// Unwrap returns ErrConflict.
func (e *HeldError) Unwrap() error { return thole.ErrConflict }

// base is the key of the exclusive lease.
func base(name string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("%w: a lock needs a name", thole.ErrInvalid)
	}
	return "lock/" + url.PathEscape(name), nil
}

func intentBase(base, owner string) string { return base + "/intent/" + url.PathEscape(owner) }

// Lock is a lock that is held. It is safe for concurrent use.
type Lock struct {
	Name  string
	Owner string
	Mode  Mode
	Fence thole.Fence // what the holder's commits go under; see thole.Space.Under
	TTL   time.Duration

	locks *Locks
	state *state
}

// Renew moves the lock's end to its TTL from now. ErrFenced: it is not held any
// more.
func (l *Lock) Renew(ctx context.Context) error {
	return l.locks.Renew(ctx, l.Name, l.Fence, l.TTL)
}

// Release gives the lock back and stops keeping it. It may be called again.
// ErrFenced: another holds it by now.
func (l *Lock) Release(ctx context.Context) error {
	l.state.end()
	return l.locks.Release(ctx, l.Name, l.Fence)
}

// leaseOf returns the lease of the lock called name that f proves, and its mode.
// ErrInvalid: f is of something else.
func leaseOf(name string, f thole.Fence) (lease string, mode Mode, err error) {
	b, err := base(name)
	if err != nil {
		return "", "", err
	}
	lease, ok := strings.CutSuffix(f.Key, "/owner")
	switch {
	case !ok:
		return "", "", fmt.Errorf("lock %q: %w: the fence is of no lock", name, thole.ErrInvalid)
	case lease == b:
		return lease, Exclusive, nil
	case strings.HasPrefix(lease, b+"/intent/"):
		return lease, Intent, nil
	}
	return "", "", fmt.Errorf("lock %q: %w: the fence is of another", name, thole.ErrInvalid)
}

// Renew moves the end of the lock that f proves to ttl (0: DefaultTTL) from
// now; it may be repeated, and needs no idempotency key. ErrFenced: it is not held
// any more. ErrInvalid: f is not of this lock.
func (ls *Locks) Renew(ctx context.Context, name string, f thole.Fence, ttl time.Duration) error {
	if _, _, err := leaseOf(name, f); err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	if ttl == 0 {
		ttl = DefaultTTL
	}
	return ls.sp.Renew(ctx, f, ttl)
}

// Release frees the lock that f proves; one that nobody holds is no error, so
// it may be repeated. ErrFenced: another holds it by now. ErrInvalid: f is not
// of this lock.
func (ls *Locks) Release(ctx context.Context, name string, f thole.Fence) error {
	ctx = thole.Call(ctx, "lock.release", name)
	lease, mode, err := leaseOf(name, f)
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	_, err = ls.sp.Update(ctx, func(tx *thole.Tx) error {
		l, err := tx.Lease(lease)
		switch {
		case err != nil || l.Holder == "":
			return err
		case !l.Fence.Is(f):
			return fmt.Errorf("release lock %q: %w: it is held by %s", name, thole.ErrFenced, l.Holder)
		}
		tx.Release(lease)
		tx.Emit("lock/"+url.PathEscape(name), TypeReleased, Change{Name: name, Owner: l.Holder, Mode: mode})
		return nil
	})
	return err
}

// Do holds the lock while fn runs: it acquires, keeps and, however fn ends,
// releases it. What fn commits through sp is fenced; its ctx ends, with the
// cause ErrFenced, when the lock is lost. An idempotency key is for what fn does: a
// repeat takes the lock anew. Errors: those of Acquire, fn's own.
func (ls *Locks) Do(ctx context.Context, name string, opts *Options, fn func(ctx context.Context, sp *thole.Space) error) (err error) {
	own := thole.WithoutIdempotencyKey(ctx)
	l, err := ls.Acquire(own, name, opts)
	if err != nil {
		return err
	}
	defer func() {
		// A cancelled caller must still give the lock back.
		end := l.Release(context.WithoutCancel(own))
		if !errors.Is(end, thole.ErrFenced) {
			err = errors.Join(err, end)
		}
	}()
	kept, stop := l.Keep(ctx)
	defer stop()
	return fn(kept, ls.sp.Under(l.Fence))
}
