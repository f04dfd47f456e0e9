package thole

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A lease is two records under a base key. <base>/owner says who holds it and
// is written only when it is acquired, stolen or released; its version is the
// fencing token. <base>/beat expires; renewing it leaves owner alone, so the
// token stays. A holder whose beat ran out still holds the lease until someone
// replaces owner: late is not lost.
//
// A key and a position can be guessed. So a fence that leaves the program also
// carries a secret, of which only the hash is stored: see [Fence.Proof] and
// [Space.Prove].
type leaseOwner struct {
	Holder string `json:"holder"`
	// Actor is who acquired it. Leases of earlier versions name nobody.
	Actor string `json:"actor,omitempty"`
	// Hash is the SHA-256 of the secret in hex. Leases that were acquired before
	// there were secrets have none: nobody can prove those.
	Hash string `json:"hash,omitempty"`
}

type leaseBeat struct {
	TTL int64 `json:"ttl_ms"`
}

// Lease is who holds a lease, as a Tx saw it.
type Lease struct {
	Holder string // "": nobody
	Actor  string // who acquired it; "": nobody, or an earlier version of Thole
	Fence  Fence  // what the holder's commits go under; without the secret
	Alive  bool   // its holder gave a sign of life in time

	under bool // the handle that looked is under Fence
}

// IsOf reports whether holder, acting as actor, has the lease. The name of a
// holder is shown to others, so it proves nothing: the lease must have been
// acquired by the same actor, or be looked at by a handle under its fence.
func (l Lease) IsOf(actor, holder string) bool {
	return l.Holder != "" && l.Holder == holder && (l.under || l.Actor != "" && l.Actor == actor)
}

// Lease reads the lease under base.
func (tx *Tx) Lease(base string) (Lease, error) {
	var o leaseOwner
	rec, err := tx.Get(base + "/owner")
	if err != nil || !rec.Exists() {
		return Lease{}, err
	}
	if err := rec.As(&o); err != nil {
		return Lease{}, err
	}
	beat, err := tx.Get(base + "/beat")
	if err != nil {
		return Lease{}, err
	}
	alive := tx.sp.store.beating(tx.sp.name, beat)
	l := Lease{Holder: o.Holder, Actor: o.Actor, Fence: Fence{Key: rec.Key, Token: rec.Version}, Alive: alive}
	l.under = slices.ContainsFunc(tx.sp.fences, l.Fence.Is)
	return l, nil
}

// Acquire takes the lease under base for holder, in the name of the handle's
// actor, for ttl from now. One that is alive in another's hands, see [Lease.IsOf],
// is ErrConflict; a dead one is stolen. Acquiring one's own lease again makes a new
// token. The Fence has no token yet: once the Tx is
// committed, [Fence.At] gives it the one.
func (tx *Tx) Acquire(base, holder string, ttl time.Duration) (Fence, error) {
	l, err := tx.Lease(base)
	if err != nil {
		return Fence{}, err
	}
	if l.Alive && !l.IsOf(tx.sp.actor, holder) {
		return Fence{}, fmt.Errorf("%w: lease %s is held by %s", ErrConflict, base, l.Holder)
	}
	if err := checkLease(ttl); err != nil {
		return Fence{}, err
	}
	var s secret
	rand.Read(s[:])
	f := Fence{Key: base + "/owner", secret: s.keep}
	tx.Put(f.Key, leaseOwner{Holder: holder, Actor: tx.sp.actor, Hash: s.hash()}, nil)
	tx.beat(base, ttl)
	tx.keep.leases = append(slices.DeleteFunc(tx.keep.leases, func(g Fence) bool { return g.Key == f.Key }), f)
	return f, nil
}

// MaxLease is the longest time for which a lease is given without being renewed. A
// holder that dies blocks the others for as long.
const MaxLease = 24 * time.Hour

func checkLease(ttl time.Duration) error {
	if ttl <= 0 || ttl > MaxLease {
		return invalidf("a lease of %v; it may last up to %v, and be renewed", ttl, MaxLease)
	}
	return nil
}

// Release ends the lease under base, whoever holds it; a caller that must not
// end another's commits under a fence.
func (tx *Tx) Release(base string) {
	tx.Delete(base + "/owner")
	tx.Delete(base + "/beat")
}

func (tx *Tx) beat(base string, ttl time.Duration) {
	tx.Put(base+"/beat", leaseBeat{TTL: ttl.Milliseconds()}, &WriteOptions{Expires: tx.now.Add(ttl)})
}

// Renew moves the end of the lease that f proves to ttl from now. ErrFenced: it
// has another holder.
func (sp *Space) Renew(ctx context.Context, f Fence, ttl time.Duration) error {
	base, ok := leaseBase(f)
	if err := checkLease(ttl); err != nil {
		return err
	}
	if !ok {
		return invalidf("%q is not the owner record of a lease", f.Key)
	}
	_, err := sp.Under(f).Update(WithoutIdempotencyKey(ctx), func(tx *Tx) error {
		tx.beat(base, ttl)
		return nil
	})
	return err
}

func leaseBase(f Fence) (string, bool) {
	const suffix = "/owner"
	n := len(f.Key) - len(suffix)
	if n <= 0 || f.Key[n:] != suffix {
		return "", false
	}
	return f.Key[:n], true
}

// KeepLease renews the lease that f proves, every third of ttl, until ctx ends.
// It returns the context's cause, or ErrFenced as soon as another holds the
// lease. Other failures are tried again: a late holder may still write.
func (sp *Space) KeepLease(ctx context.Context, f Fence, ttl time.Duration) error {
	if err := checkLease(ttl); err != nil {
		return err
	}
	tick := time.NewTicker(max(ttl/3, 1))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			if err := sp.Renew(ctx, f, ttl); errors.Is(err, ErrFenced) || errors.Is(err, ErrClosed) {
				return err
			}
		}
	}
}
