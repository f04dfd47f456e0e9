package thole

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"sync/atomic"
	"time"
)

// receiptTTL is how long a repeat is recognised.
const receiptTTL = 24 * time.Hour

// once is an idempotency key on a context. The n-th commit made under it has
// the n-th receipt, so an operation of several commits resumes where it was.
type once struct {
	user, fingerprint string
	n                 atomic.Int32
}

type receipt struct {
	Fingerprint string `json:"fingerprint"`
	Events      int    `json:"events"`
}

type onceKey struct{}

// WithIdempotencyKey makes what is committed under the returned context happen
// at most once per actor and space, for 24 h: a repeat with the same key and
// fingerprint commits nothing and gets the first Result with Repeated set;
// another fingerprint gets *ReusedKeyError. The fingerprint stands for the
// request, such as a hash of its body. Use one context for one operation, from
// one goroutine.
func WithIdempotencyKey(ctx context.Context, key, fingerprint string) context.Context {
	return context.WithValue(ctx, onceKey{}, &once{user: key, fingerprint: fingerprint})
}

// WithoutIdempotencyKey undoes WithIdempotencyKey for work that goes on beside
// the operation.
func WithoutIdempotencyKey(ctx context.Context) context.Context {
	return context.WithValue(ctx, onceKey{}, (*once)(nil))
}

func onceFrom(ctx context.Context) *once {
	o, _ := ctx.Value(onceKey{}).(*once)
	return o
}

// key hashes what the user gave, so that it may be long and secret.
func (o *once) key(sp *Space) string {
	sum := sha256.Sum256([]byte(cmp.Or(sp.caller, sp.actor) + "\x00" + o.user))
	return "idem/" + hex.EncodeToString(sum[:16]) + "/" + strconv.Itoa(int(o.n.Load()))
}

func (o *once) receipt(sp *Space, events int) Write {
	v, _ := marshal(receipt{Fingerprint: o.fingerprint, Events: events}) // two plain fields: cannot fail
	return Write{Key: o.key(sp), Value: v, Expires: sp.store.Now().Add(receiptTTL)}
}

func (o *once) next() { o.n.Add(1) }

// receipt is Earlier for who is about to commit, and then does not.
func (sp *Space) receipt(ctx context.Context) (Result, bool, error) {
	res, repeated, err := sp.Earlier(ctx)
	if repeated {
		onceFrom(ctx).next()
	}
	return res, repeated, err
}

// Earlier returns the Result of the commit that was made under ctx's idempotency
// key before, so that the next one through this handle would be a repeat; false:
// none was. Errors: *ReusedKeyError.
func (sp *Space) Earlier(ctx context.Context) (Result, bool, error) {
	o := onceFrom(ctx)
	if o == nil || sp.err != nil {
		return Result{}, false, sp.err
	}
	rec, err := sp.Get(ctx, o.key(sp))
	if err != nil || !rec.Exists() {
		return Result{}, false, err
	}
	var r receipt
	if err := rec.As(&r); err != nil {
		return Result{}, false, err
	}
	if r.Fingerprint != o.fingerprint {
		return Result{}, false, &ReusedKeyError{Key: o.user}
	}
	res := Result{Last: rec.Version, Repeated: true}
	if r.Events > 0 {
		res.First = rec.Version
		res.First.Seq -= uint64(r.Events - 1)
	}
	return res, true, nil
}

// Repeat returns the events of a commit that was made earlier under the same
// idempotency key.
func (sp *Space) Repeat(ctx context.Context, res Result) ([]Event, error) {
	if !res.Repeated {
		return nil, errors.New("thole: Repeat of a result that is not repeated")
	}
	if res.First.IsZero() {
		return nil, nil
	}
	after := res.First
	after.Seq--
	page, err := sp.Read(ctx, ReadQuery{After: after, Limit: int(res.Last.Seq - after.Seq)})
	for i, e := range page.Events {
		if e.Position.Seq > res.Last.Seq {
			page.Events = page.Events[:i]
			break
		}
	}
	return page.Events, err
}
