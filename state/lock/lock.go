// Package lock keeps named locks, such as one per file that agents and people edit. A
// lock is a lease: it becomes free when its holder stops renewing it. It has a fencing
// token: commits of a replaced holder under its fence fail with ErrFenced. Waiters are
// served in order of arrival, and a wait that could never end is ErrDeadlock.
//
// Records, with <lock> being lock/<escaped name>:
//
//	<lock>/owner, <lock>/beat     the exclusive lease (see thole.Tx.Acquire)
//	<lock>/queue                  the waiters, in order
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
	Intent    Mode = "intent"    // advisory: by any number of owners; others see it, nobody waits for it
)

// Change is the data of this package's events.
type Change struct {
	Name  string `json:"name" names:"shown"`
	Owner string `json:"owner"`
	Mode  Mode   `json:"mode"`
}

// Locks are the locks of one space.
type Locks struct{ sp *thole.Space }

// In returns the locks of sp, whose store must have been given [Concept].
func In(sp *thole.Space) *Locks { return &Locks{sp: sp.For(Name)} }

// Options of [Locks.Acquire].
type Options struct {
	// Owner names the holder: something that does one step at a time, such as a tool
	// call. Two calls with the same owner exclude each other like any other two, and
	// an owner that waits for itself is a deadlock. Default: the handle's actor and a
	// new id, so a deadlock across several calls of one caller is not found. Others
	// can see the name, so it proves nothing: the same name under another actor is
	// another owner.
	Owner string
	TTL   time.Duration // how long without renewal, up to thole.MaxLease; default DefaultTTL
	// Wait bounds the wait for others: 0 does not wait, negative waits until
	// ctx ends.
	Wait time.Duration
	Mode Mode // default Exclusive
	// Again lets Owner take a lock that it already holds, such as after a restart; the
	// earlier holder is fenced off. The handle must have the earlier holder's actor
	// (see thole.Space.As) or be under the lock's fence. Commits of a handle under that
	// fence fail afterwards, so renew and release through another one. Otherwise
	// Acquire returns ErrDeadlock, or ErrConflict without Wait.
	Again bool
	// Dead, if set, reports whether an owner is known to be dead for good. Acquire then
	// takes over its lock and skips its place in the queue, even if its lease has not
	// run out. It is called outside of a Tx, for each holder or waiter ahead of Owner.
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

// HeldError reports that others hold the lock or wait for it. It unwraps to ErrConflict.
type HeldError struct {
	Name    string
	Owner   string // "": nobody holds it, but others wait for it
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

// base returns the key of the exclusive lease.
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
	Fence thole.Fence // for the holder's commits; see thole.Space.Under
	TTL   time.Duration

	locks *Locks
	state *state
}

// Renew extends the lock to its TTL from now. Errors: ErrFenced if it is no longer held.
func (l *Lock) Renew(ctx context.Context) error {
	return l.locks.Renew(ctx, l.Name, l.Fence, l.TTL)
}

// Release frees the lock and stops its Keep. It is idempotent. Errors: ErrFenced if
// another holder has it.
func (l *Lock) Release(ctx context.Context) error {
	l.state.end()
	return l.locks.Release(ctx, l.Name, l.Fence)
}

// leaseOf returns the lease of the named lock that f is the fence of, and its mode.
// Errors: ErrInvalid if f is not of this lock.
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

// Renew extends the lock with fence f to ttl (0: DefaultTTL) from now. It is safe to
// repeat without an idempotency key. Errors: ErrFenced if the lock is no longer held;
// ErrInvalid if f is not of this lock.
func (ls *Locks) Renew(ctx context.Context, name string, f thole.Fence, ttl time.Duration) error {
	if _, _, err := leaseOf(name, f); err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	if ttl == 0 {
		ttl = DefaultTTL
	}
	return ls.sp.Renew(ctx, f, ttl)
}

// Release frees the lock with fence f. If nobody holds the lock it does nothing, so it
// is safe to repeat. Errors: ErrFenced if another holder has the lock; ErrInvalid if f
// is not of this lock.
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

// Do acquires the lock, keeps it while fn runs, and releases it however fn ends. fn's
// commits through sp are fenced; if the lock is lost, fn's ctx ends with the cause
// ErrFenced. An idempotency key covers what fn does: a repeat acquires the lock again.
// Errors: those of Acquire; fn's own.
func (ls *Locks) Do(ctx context.Context, name string, opts *Options, fn func(ctx context.Context, sp *thole.Space) error) (err error) {
	own := thole.WithoutIdempotencyKey(ctx)
	l, err := ls.Acquire(own, name, opts)
	if err != nil {
		return err
	}
	defer func() {
		// A cancelled caller must still release the lock.
		end := l.Release(context.WithoutCancel(own))
		if !errors.Is(end, thole.ErrFenced) {
			err = errors.Join(err, end)
		}
	}()
	kept, stop := l.Keep(ctx)
	defer stop()
	return fn(kept, ls.sp.Under(l.Fence))
}
