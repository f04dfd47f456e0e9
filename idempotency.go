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

// receiptTTL is how long a repeat is recognised. It counts from the newest time seen in
// the space, in case this machine's clock is behind.
const receiptTTL = 24 * time.Hour

// once is an idempotency key on a context. Each call of an operation takes the
// operation's next number when it begins, even if it fails later, and uses the receipt
// with that number. So in a repeat each call finds its own receipt or none. Without an
// [Operation], every call through the context has the number 0, so the second is a
// repeat of the first.
type once struct {
	user, fingerprint string
	secret            string     // see WithKeySecret
	reread            any        // see Reread
	operation         *operation // nil: outside of an Operation
	call              *call      // nil: outside of a call
}

// operation numbers the calls of an Operation.
type operation struct {
	prefix string // of its calls' numbers; set in a nested operation
	n      atomic.Int32
}

func (op *operation) enter() string { return op.prefix + strconv.Itoa(int(op.n.Add(1)-1)) }

// call is one call of an operation. Its tries share its number until one of them
// commits.
type call struct {
	number string
	name   string       // the operation and a hash of its target, kept in the receipt
	made   atomic.Int32 // its commits
	begun  atomic.Int32 // the operations within it
}

// next returns the number of the call's next commit.
func (c *call) next() string { return c.nth(c.made.Load()) }

// enter begins an operation within the call and returns the prefix of its numbers, which
// no commit of the call itself has.
func (c *call) enter() string { return c.nth(c.begun.Add(1)-1) + "-" }

func (c *call) nth(n int32) string {
	if n == 0 {
		return c.number
	}
	return c.number + "." + strconv.Itoa(int(n))
}

// rawCall is the name of a Commit or Update outside of a [Call].
const rawCall = "commit"

type onceKey struct{}

// WithIdempotencyKey returns a context under which an operation takes effect at most
// once per actor and space, for 24 hours. A repeat with the same key and fingerprint,
// through this context or another, commits nothing and returns the first Result with
// Repeated set. The same key with another fingerprint, or for another call (see
// [Call]), returns *ReusedKeyError. The fingerprint identifies the request, for example
// a hash of its body. A key covers one operation; to make one of several calls, see
// [Operation].
func WithIdempotencyKey(ctx context.Context, key, fingerprint string) context.Context {
	return context.WithValue(ctx, onceKey{}, &once{user: key, fingerprint: fingerprint})
}

// WithKeySecret adds to ctx's idempotency key a secret that only the caller knows, such
// as the bearer token of a request. It encrypts the secrets of fences (see
// [Fence.Proof]) in receipts. Without it receipts do not hold them, and a repeat
// returns its fences without secrets. If ctx has no idempotency key, WithKeySecret
// returns ctx.
func WithKeySecret(ctx context.Context, secret string) context.Context {
	o := onceFrom(ctx)
	if o == nil {
		return ctx
	}
	inner := *o
	inner.secret = secret
	return context.WithValue(ctx, onceKey{}, &inner)
}

// Operation begins an operation of several calls under ctx's idempotency key. The n-th
// Commit, Update or [Call] under the returned context has the n-th receipt, even if
// earlier calls changed nothing or failed. To repeat the operation, begin it again:
// each call that committed before returns its first result. The calls must be made one
// after the other, in the same order each time. An operation within another counts as
// one call of the outer one. Operations within a [Call] are numbered, too, in the order in
// which they begin, and each has receipts of its own; to repeat one, begin the Call again.
// Concurrent operations share no receipts, but a repeat may begin them in another order
// and give one the receipts of another. If ctx has no idempotency key, Operation returns
// ctx.
func Operation(ctx context.Context) context.Context {
	o := onceFrom(ctx)
	if o == nil {
		return ctx
	}
	op := &operation{}
	switch {
	case o.operation != nil:
		op.prefix = o.operation.enter() + "."
	case o.call != nil:
		op.prefix = o.call.enter()
	}
	inner := *o
	inner.operation, inner.call = op, nil
	return context.WithValue(ctx, onceKey{}, &inner)
}

// Call names a call under ctx's idempotency key: what it does ("kv.set"), and its
// target. Using the key for another name or target returns *ReusedKeyError. All tries
// under the returned context, until one commits, share the call's number in its
// operation. Within another Call, or if ctx has no idempotency key, Call returns ctx. A
// Commit or Update outside of a Call has no name of its own: only the fingerprint
// distinguishes it from others. Concepts name all of theirs: see [Space.For].
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

// enter returns ctx within a new call of the given name.
func (o *once) enter(ctx context.Context, name string) context.Context {
	c := &call{number: "0", name: name}
	if o.operation != nil {
		c.number = o.operation.enter()
	}
	inner := *o
	inner.call = c
	return context.WithValue(ctx, onceKey{}, &inner)
}

// entered returns ctx if it is within a call, else ctx within a new one. A concept must
// name its calls: without a name, two of its operations under one key could not be told
// apart, and the second would return without having done anything.
func (sp *Space) entered(ctx context.Context) (context.Context, error) {
	o := onceFrom(ctx)
	switch {
	case o == nil || o.call != nil:
		return ctx, nil
	case sp.owner != "":
		return ctx, invalidf("a commit of concept %s under an idempotency key that no call names: see thole.Call", sp.owner)
	}
	return o.enter(ctx, rawCall), nil
}

// WithoutIdempotencyKey returns ctx without its idempotency key, for work that is not
// part of the operation.
func WithoutIdempotencyKey(ctx context.Context) context.Context {
	return context.WithValue(ctx, onceKey{}, (*once)(nil))
}

// RefuseIdempotencyKey returns ErrInvalid if ctx has an idempotency key. It is for
// operations that cannot honour one. The error ends with instead, which says what to do.
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

// key returns the key of the receipt of the current call, or, outside of one, of the
// next. It hashes the user's key, which may be long and secret.
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
