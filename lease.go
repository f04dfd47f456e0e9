package thole

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A lease is two records under a base key. <base>/owner names the holder and is written
// only when the lease is acquired, stolen or released; its version is the fencing
// token. <base>/beat expires; renewing the lease writes only beat, so the token stays
// the same. A holder whose beat has expired still has the lease until someone replaces
// owner, so a late renewal succeeds.
//
// A key and a position can be guessed, so a fence that leaves the program also carries
// a secret; only its hash is stored. See [Fence.Proof] and [Space.Prove].
type leaseOwner struct {
	Holder string `json:"holder"`
	// Actor acquired the lease. It is empty in leases of earlier versions.
	Actor string `json:"actor,omitempty"`
	// Hash is the SHA-256 of the secret, in hex. It is empty in leases of versions
	// without secrets; Prove fails for those.
	Hash string `json:"hash,omitempty"`
}

type leaseBeat struct {
	TTL int64 `json:"ttl_ms"`
}

// Lease describes a lease as a Tx read it.
type Lease struct {
	Holder string // "": nobody
	Actor  string // the actor that acquired it; "": nobody, or an earlier version of Thole
	Fence  Fence  // the fence of the holder's commits, without the secret
	Alive  bool   // its holder has renewed it in time

	under bool // the handle of the Tx is under Fence
}

// IsOf reports whether holder, acting as actor, has the lease. A holder's name is
// public and proves nothing, so either actor must have acquired the lease or the handle
// of the Tx must be under its fence.
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

// Acquire acquires the lease under base for holder and the handle's actor, for ttl from
// now. If it belongs to another holder (see [Lease.IsOf]) that is alive, Acquire
// returns ErrConflict; a dead holder's lease is stolen. Acquiring one's own lease again
// makes a new token. The returned Fence has no token yet: after the commit, set it with
// [Fence.At].
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

// MaxLease is the longest ttl of a lease. A holder that dies blocks others for up to
// its ttl.
const MaxLease = 24 * time.Hour

func checkLease(ttl time.Duration) error {
	if ttl <= 0 || ttl > MaxLease {
		return invalidf("a lease of %v; it may last up to %v, and be renewed", ttl, MaxLease)
	}
	return nil
}

// Release ends the lease under base, no matter who holds it. A caller that must end
// only its own lease commits under its fence.
func (tx *Tx) Release(base string) {
	tx.Delete(base + "/owner")
	tx.Delete(base + "/beat")
}

func (tx *Tx) beat(base string, ttl time.Duration) {
	tx.Put(base+"/beat", leaseBeat{TTL: ttl.Milliseconds()}, &WriteOptions{Expires: tx.Expiry(ttl)})
}

// Renew extends the lease of f to ttl from now. ErrFenced: the lease has another
// holder.
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

// KeepLease renews the lease of f every ttl/3 until ctx ends, and returns ctx's cause.
// If a renewal fails with ErrFenced or ErrClosed, it returns that error. After other
// errors it tries again: a late holder may still write.
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
