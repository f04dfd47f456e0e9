package thole

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// receiptTTL is how long a repeat is recognised, counted from the newest time that
// was seen in the space: by a machine whose clock is right, should this one's be
// behind.
const receiptTTL = 24 * time.Hour

// once is an idempotency key on a context. Each call of an operation takes the
// operation's next number when it enters, whatever comes of it, and has the
// receipt of that number. So on a repeat each call finds its own receipt or none.
// Before an operation has begun, each call through the context is an operation of
// its own, and the next one is its repeat.
type once struct {
	user, fingerprint string
	secret            string     // see WithKeySecret
	reread            any        // see Reread
	operation         *operation // nil: none has begun
	call              *call      // nil: between calls
}

// operation numbers its calls.
type operation struct {
	prefix string // of the numbers: that of the operation around it, if any
	n      atomic.Int32
}

func (op *operation) enter() string { return op.prefix + strconv.Itoa(int(op.n.Add(1)-1)) }

// call is one call. Its tries share its number until one of them commits.
type call struct {
	number string
	name   string // what it is and on what, for the receipt
	made   atomic.Int32
}

func (c *call) next() string {
	if n := c.made.Load(); n > 0 {
		return c.number + "." + strconv.Itoa(int(n))
	}
	return c.number
}

// rawCall is the name of a Commit or Update that no [Call] names.
const rawCall = "commit"

type onceKey struct{}

// WithIdempotencyKey makes the operation that is called with the returned context
// happen at most once per actor and space, for 24 h: a repeat with the same key
// and fingerprint, through the same context or another one, commits nothing and
// gets the first Result with Repeated set; another fingerprint, or another call
// (see [Call]), gets *ReusedKeyError. The fingerprint stands for the request, such as a hash of its
// body. One key is for one operation: see [Operation] for those that you compose.
func WithIdempotencyKey(ctx context.Context, key, fingerprint string) context.Context {
	return context.WithValue(ctx, onceKey{}, &once{user: key, fingerprint: fingerprint})
}

// WithKeySecret adds to ctx's idempotency key what only its caller knows, such as the
// bearer token of a request. With it the secrets of fences in answers are sealed: see
// [Fence.Proof]. Without it they are not kept, and a repeat's fence has none. Without
// a key it returns ctx.
func WithKeySecret(ctx context.Context, secret string) context.Context {
	o := onceFrom(ctx)
	if o == nil {
		return ctx
	}
	inner := *o
	inner.secret = secret
	return context.WithValue(ctx, onceKey{}, &inner)
}

// Operation begins an operation of several calls under ctx's idempotency key: the
// outermost one owns the key, and the n-th Commit, Update or [Call] under the
// returned context has the n-th receipt, also when those before it changed nothing
// or were refused. A repeat of the operation begins it again, and each of its
// commits that was made before is repeated. The calls are made one after the
// other, in the same order each time. An operation within another one counts as
// one call of that. Without a key it returns ctx.
func Operation(ctx context.Context) context.Context {
	o := onceFrom(ctx)
	if o == nil {
		return ctx
	}
	op := &operation{}
	if o.operation != nil {
		op.prefix = o.operation.enter() + "."
	}
	inner := *o
	inner.operation, inner.call = op, nil
	return context.WithValue(ctx, onceKey{}, &inner)
}

// Call names one call under ctx's idempotency key: what it does ("kv.set"), and on
// what. The key is for that call: under the same key, another name or target is
// *ReusedKeyError. Whatever is tried under the returned context, until one try
// commits, shares the call's number in its operation. Within a call, and without a
// key, it returns ctx. A Commit or Update outside of a Call is a call without a
// name: only the key's fingerprint tells it from others.
func Call(ctx context.Context, name string, on ...string) context.Context {
	o := onceFrom(ctx)
	if o == nil || o.call != nil {
		return ctx
	}
	if len(on) > 0 {
		sum := sha256.New()
		for _, s := range on {
			fmt.Fprintf(sum, "%q ", s)
		}
		name += " " + hex.EncodeToString(sum.Sum(nil)[:8])
	}
	return o.enter(ctx, name)
}

// enter returns ctx within a call of the given name.
func (o *once) enter(ctx context.Context, name string) context.Context {
	c := &call{number: "0", name: name}
	if o.operation != nil {
		c.number = o.operation.enter()
	}
	inner := *o
	inner.call = c
	return context.WithValue(ctx, onceKey{}, &inner)
}

// entered returns ctx within a call: the one that it is in, or a new one.
func entered(ctx context.Context) context.Context {
	if o := onceFrom(ctx); o != nil && o.call == nil {
		return o.enter(ctx, rawCall)
	}
	return ctx
}

// WithoutIdempotencyKey undoes WithIdempotencyKey for work that goes on beside
// the operation.
func WithoutIdempotencyKey(ctx context.Context) context.Context {
	return context.WithValue(ctx, onceKey{}, (*once)(nil))
}

// RefuseIdempotencyKey is ErrInvalid if ctx carries an idempotency key, for an
// operation that cannot honour one. It says what to do instead.
func RefuseIdempotencyKey(ctx context.Context, operation, instead string) error {
	if onceFrom(ctx) == nil {
		return nil
	}
	return invalidf("%s under an idempotency key: %s", operation, instead)
}

func onceFrom(ctx context.Context) *once {
	o, _ := ctx.Value(onceKey{}).(*once)
	return o
}

// key is where the receipt of the current or else the next call is. It hashes what
// the user gave, so that it may be long and secret.
func (o *once) key(sp *Space) string {
	sum := sha256.Sum256([]byte(cmp.Or(sp.caller, sp.actor) + "\x00" + o.user))
	number := "0"
	switch {
	case o.call != nil:
		number = o.call.next()
	case o.operation != nil:
		number = o.operation.prefix + strconv.Itoa(int(o.operation.n.Load()))
	}
	return "idem/" + hex.EncodeToString(sum[:16]) + "/" + number
}
