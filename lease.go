package thole

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A lease is two records under a base key. <base>/owner says who holds it and
// is written only when it is acquired, stolen or released; its version is the
// fencing token. <base>/beat expires; renewing it leaves owner alone, so the
// token stays. A holder whose beat ran out still holds the lease until someone
// replaces owner: late is not lost.
type leaseOwner struct {
	Holder string `json:"holder"`
}

type leaseBeat struct {
	TTL int64 `json:"ttl_ms"`
}

// Lease is who holds a lease, as a Tx saw it.
type Lease struct {
	Holder string // "": nobody
	Fence  Fence  // what the holder's commits go under
	Alive  bool   // its beat has not run out
}

// Lease reads the lease under base.
func (tx *Tx) Lease(base string) (Lease, error) {
	rec, err := tx.Get(base + "/owner")
	if err != nil || !rec.Exists() {
		return Lease{}, err
	}
	var o leaseOwner
	if err := rec.As(&o); err != nil {
		return Lease{}, err
	}
	beat, err := tx.Get(base + "/beat")
	if err != nil {
		return Lease{}, err
	}
	return Lease{Holder: o.Holder, Fence: Fence{Key: rec.Key, Token: rec.Version}, Alive: beat.Exists()}, nil
}

// Acquire takes the lease under base for holder, for ttl from now. One that is
// alive in another's hands is ErrConflict; a dead one is stolen. Once the Tx is
// committed, [LeaseFence] gives the fence. Acquiring one's own lease again makes
// a new token.
func (tx *Tx) Acquire(base, holder string, ttl time.Duration) error {
	if ttl <= 0 {
		return invalidf("a lease of %v", ttl)
	}
	l, err := tx.Lease(base)
	if err != nil {
		return err
	}
	if l.Alive && l.Holder != holder {
		return fmt.Errorf("%w: lease %s is held by %s", ErrConflict, base, l.Holder)
	}
	tx.Put(base+"/owner", leaseOwner{Holder: holder}, nil)
	tx.beat(base, ttl)
	return nil
}

// Release ends the lease under base, whoever holds it; who must not end
// another's, commits under a fence.
func (tx *Tx) Release(base string) {
	tx.Delete(base + "/owner")
	tx.Delete(base + "/beat")
}

func (tx *Tx) beat(base string, ttl time.Duration) {
	tx.Put(base+"/beat", leaseBeat{TTL: ttl.Milliseconds()}, &WriteOptions{Expires: tx.now.Add(ttl)})
}

// LeaseFence is the fence of a lease that was acquired in the commit with
// result res.
func LeaseFence(base string, res Result) Fence {
	return Fence{Key: base + "/owner", Token: res.Last}
}

// String returns the fence as opaque text that is safe in a header: base64url
// (RFC 4648, unpadded) of "<key>@<position>". The zero Fence is "".
func (f Fence) String() string {
	if f == (Fence{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(f.Key + "@" + f.Token.String()))
}

// ParseFence reads the text form. Anything that [Fence.String] does not print
// is ErrInvalid, the empty string included.
func ParseFence(s string) (Fence, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") { // which the decoder skips
		return Fence{}, invalidf("fence %.40q is not base64url", s)
	}
	at := bytes.LastIndexByte(raw, '@')
	if at < 0 {
		return Fence{}, invalidf("fence %.40q names no lease", s)
	}
	f := Fence{Key: string(raw[:at])}
	if err := checkName("fence", f.Key); err != nil {
		return Fence{}, err
	}
	if f.Token, err = ParsePosition(string(raw[at+1:])); err != nil || f.Token.IsZero() {
		return Fence{}, invalidf("fence %.40q has no token", s)
	}
	return f, nil
}

// Renew moves the end of the lease that f proves to ttl from now. ErrFenced: it
// has another holder.
func (sp *Space) Renew(ctx context.Context, f Fence, ttl time.Duration) error {
	base, ok := leaseBase(f)
	if ttl <= 0 {
		return invalidf("a lease of %v", ttl)
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
	if ttl <= 0 {
		return invalidf("a lease of %v", ttl)
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
