package thole

import (
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/journal"
)

// A receipt is a record that a commit under an idempotency key writes: the call's name
// and its answer. The commit's first check is that the receipt does not exist.
//
//	idem/<hash>/<number>       {"operation", "fingerprint", "events", "answer", "parts", "fences"}
//	idem/<hash>/<number>/<i>   a part of an answer that is longer than maxAnswer, in base64
type receipt struct {
	Operation   string            `json:"operation,omitempty"` // name of the call; "": written by an earlier version
	Fingerprint string            `json:"fingerprint"`
	Events      int               `json:"events"`
	Answer      json.RawMessage   `json:"answer,omitempty"`
	Parts       int               `json:"parts,omitempty"`
	Fences      map[string][]byte `json:"fences,omitempty"` // encrypted secrets of the leases that the call acquired, by key
	At          Position          `json:"at,omitzero"`      // the commit's position; set when a purge has dropped the answer
}

const (
	maxAnswer  = 16 << 10
	answerPart = 256 << 10 // base64 of it fits a record
)

// Receipt describes the commit of a call.
type Receipt struct {
	First, Last Position // positions of its events; First is zero if it has none
	Repeated    bool     // an earlier call under the same idempotency key made the commit

	secrets map[string]secret // in a repeat, by key of the fence
}

// Fence returns f, the fence of a lease that was acquired in r's commit, with its
// token. In a repeat the secret is known only if both calls had the same
// [WithKeySecret].
func (r Receipt) Fence(f Fence) Fence {
	f.Token = r.Last
	if s, known := r.secrets[f.Key]; known {
		f.secret = s.keep
	}
	return f
}

// Update is [Space.Update] with an answer, which fn returns. Under an idempotency key
// the commit also stores the answer, as JSON, even if there is nothing else to commit.
// A repeat does not call fn: it returns the first answer, decoded from JSON, and the
// first Receipt. The answer cannot contain positions of its own commit; the caller sets
// them from the Receipt, both times. Name the operation first: see [Call].
//
// Errors: those of Space.Update; ErrExists for a repeat whose answer was not kept: see
// [Reread].
func Update[T any](ctx context.Context, sp *Space, fn func(tx *Tx) (T, error)) (T, Receipt, error) {
	var answer T
	var events int
	d, err := sp.update(ctx, func(tx *Tx) (err error) {
		if answer, err = fn(tx); err == nil {
			tx.answer(answer)
		}
		events = len(tx.commit.Events)
		return err
	})
	switch {
	case err != nil:
		return *new(T), Receipt{}, err
	case d.kept != nil:
		return recall[T](ctx, sp, d)
	}
	r := Receipt{Last: d.Last}
	if events > 0 {
		r.First = d.First
	}
	return answer, r, nil
}

// Do returns the first answer if the call under ctx's idempotency key was made before,
// else the result of fn. It is for calls that read before they commit; fn must commit
// through [Update] with the ctx that it gets. Further steps of the call belong after Do
// and must run in a repeat too, because the first try may have died before them.
func Do[T any](ctx context.Context, sp *Space, fn func(ctx context.Context) (T, Receipt, error)) (T, Receipt, error) {
	ctx, err := sp.entered(ctx)
	if err != nil {
		return *new(T), Receipt{}, err
	}
	d, err := sp.receipt(ctx)
	switch {
	case err != nil:
		return *new(T), Receipt{}, err
	case d.kept != nil:
		return recall[T](ctx, sp, d)
	}
	return fn(ctx)
}

// done is the outcome of a commit, with the receipt if it is a repeat.
type done struct {
	Result
	kept *receipt
	key  string // the key of kept
}

// recall returns the first answer and Receipt of a repeated call.
func recall[T any](ctx context.Context, sp *Space, d done) (answer T, r Receipt, err error) {
	r = Receipt{First: d.First, Last: d.Last, Repeated: true, secrets: onceFrom(ctx).open(d.kept.Fences)}
	if _, nothing := any(answer).(struct{}); nothing {
		return answer, r, nil
	}
	data, err := sp.answerOf(ctx, d)
	switch read, ok := onceFrom(ctx).reread.(func(context.Context, []Event) (T, error)); {
	case err != nil:
		return answer, r, err
	case len(data) > 0:
		return answer, r, journal.Decode("receipt "+d.key, data, &answer)
	case ok:
		ctx = WithoutIdempotencyKey(ctx)
		var events []Event
		if events, err = sp.eventsOf(ctx, d.Result); err == nil {
			answer, err = read(ctx, events)
		}
		if err == nil || ctx.Err() != nil {
			return answer, r, err
		}
	}
	if err == nil {
		err = errors.New("no answer was kept")
	}
	return answer, r, fmt.Errorf("%w: this was done before, at %s, but what it answered is gone: %v", ErrExists, d.Last, err)
}

// Reread returns ctx with a function that recomputes the answer of a repeat whose
// receipt has none, because an earlier version wrote the receipt or because of a purge.
// The function gets the events of the first commit and may read the present state. If
// ctx has no idempotency key, Reread returns ctx.
func Reread[T any](ctx context.Context, read func(ctx context.Context, events []Event) (T, error)) context.Context {
	o := onceFrom(ctx)
	if o == nil {
		return ctx
	}
	inner := *o
	inner.reread = read
	return context.WithValue(ctx, onceKey{}, &inner)
}

// eventsOf returns the events of the commit with result res.
func (sp *Space) eventsOf(ctx context.Context, res Result) ([]Event, error) {
	if res.First.IsZero() {
		return nil, nil
	}
	after := res.First
	after.Seq--
	page, err := sp.Read(ctx, ReadQuery{After: after, Limit: int(res.Last.Seq - after.Seq)})
	beyond := func(e Event) bool { return e.Position.Seq > res.Last.Seq }
	return slices.DeleteFunc(page.Events, beyond), err
}

// answerOf returns the answer of a receipt, or nil if it was not kept.
func (sp *Space) answerOf(ctx context.Context, d done) (json.RawMessage, error) {
	if d.kept.Parts == 0 {
		return d.kept.Answer, nil
	}
	keys := make([]string, d.kept.Parts)
	for i := range keys {
		keys[i] = d.key + "/" + strconv.Itoa(i)
	}
	recs, err := sp.GetAll(ctx, keys...)
	if err != nil {
		return nil, err
	}
	var whole bytes.Buffer
	for _, r := range recs {
		var part []byte
		if !r.Exists() {
			return nil, nil
		}
		if err := r.As(&part); err != nil {
			return nil, err
		}
		whole.Write(part)
	}
	return whole.Bytes(), nil
}

// keep is the part of a Tx that goes into its receipt.
type keep struct {
	answer json.RawMessage
	leases []Fence // acquired in the Tx
}

// receipt returns the writes of a commit's receipt.
func (o *once) receipt(sp *Space, events int, k keep) []Write {
	r := receipt{Operation: o.call.name, Fingerprint: o.fingerprint, Events: events, Fences: o.seal(k.leases)}
	key, expires := o.key(sp), sp.store.Now().Add(receiptTTL+sp.store.aheadIn(sp.name))
	writes := make([]Write, 1)
	if len(k.answer) <= maxAnswer {
		r.Answer = k.answer
	} else {
		for rest := k.answer; len(rest) > 0; r.Parts++ {
			part := rest[:min(len(rest), answerPart)]
			rest = rest[len(part):]
			v, _ := marshal([]byte(part)) // cannot fail
			writes = append(writes, Write{Key: key + "/" + strconv.Itoa(r.Parts), Value: v, Expires: expires})
		}
	}
	v, _ := marshal(r) // plain fields and JSON: cannot fail
	writes[0] = Write{Key: key, Value: v, Expires: expires}
	return writes
}

// aead returns the cipher for the secrets of fences. Its key comes from the idempotency
// key and the caller's secret, neither of which is stored. Without the caller's secret
// it returns nil, because an idempotency key may be guessed.
func (o *once) aead() cipher.AEAD {
	if o.secret == "" {
		return nil
	}
	key := sha256.Sum256([]byte("thole: a fence's secret\x00" + o.secret + "\x00" + o.user))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // cannot happen: the key has a valid length
	}
	a, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // cannot happen: AES has GCM's block size
	}
	return a
}

func (o *once) seal(leases []Fence) map[string][]byte {
	a := o.aead()
	if a == nil || len(leases) == 0 {
		return nil
	}
	sealed := make(map[string][]byte, len(leases))
	for _, f := range leases {
		s := f.secret()
		sealed[f.Key] = a.Seal(nil, nil, s[:], []byte(f.Key))
	}
	return sealed
}

// open is the reverse of seal. It leaves out secrets that were sealed with another key.
func (o *once) open(sealed map[string][]byte) map[string]secret {
	a := o.aead()
	if a == nil {
		return nil
	}
	secrets := make(map[string]secret, len(sealed))
	for key, data := range sealed {
		if raw, err := a.Open(nil, nil, data, []byte(key)); err == nil && len(raw) == len(secret{}) {
			secrets[key] = secret(raw)
		}
	}
	return secrets
}

// receipt is earlier for a call; if there is a receipt, it also counts it as the call's
// commit.
func (sp *Space) receipt(ctx context.Context) (done, error) {
	d, err := sp.earlier(ctx)
	if d.kept != nil {
		onceFrom(ctx).call.made.Add(1)
	}
	return d, err
}

// Earlier reports whether the next commit through this handle, under ctx's idempotency
// key, would be a repeat, and returns the Result of the first one. Errors:
// *ReusedKeyError.
func (sp *Space) Earlier(ctx context.Context) (Result, bool, error) {
	d, err := sp.earlier(ctx)
	return d.Result, d.kept != nil, err
}

func (sp *Space) earlier(ctx context.Context) (done, error) {
	o := onceFrom(ctx)
	if o == nil || sp.err != nil {
		return done{}, sp.err
	}
	key := o.key(sp)
	rec, err := sp.Get(ctx, key)
	if err != nil || !rec.Exists() {
		return done{}, err
	}
	r := new(receipt)
	if err := rec.As(r); err != nil {
		return done{}, err
	}
	if r.Fingerprint != o.fingerprint || o.call != nil && r.Operation != "" && r.Operation != o.call.name {
		return done{}, &ReusedKeyError{Key: o.user}
	}
	res := Result{Last: cmp.Or(r.At, rec.Version), Repeated: true}
	if r.Events > 0 {
		res.First = res.Last
		res.First.Seq -= uint64(r.Events - 1)
	}
	return done{Result: res, kept: r, key: key}, nil
}

// maxDropped bounds the receipts that one commit rewrites, so that their parts fit too.
const maxDropped = 50

// dropAnswers removes the answers from all receipts written up to a position, because
// they may contain purged data. A repeat then returns only its Result.
func (sp *Space) dropAnswers(ctx context.Context, upTo Position) error {
	var keys []string
	for rec, err := range sp.Records(ctx, "idem/") {
		if err != nil {
			return err
		}
		if rec.Version.Seq <= upTo.Seq && strings.Count(rec.Key, "/") == 2 { // a receipt, not a part of an answer
			keys = append(keys, rec.Key)
		}
	}
	for some := range slices.Chunk(keys, maxDropped) {
		_, err := sp.Update(ctx, func(tx *Tx) error {
			for _, key := range some {
				rec, err := tx.Get(key)
				if err != nil {
					return err
				}
				var r receipt
				if !rec.Exists() || rec.As(&r) != nil || r.Answer == nil && r.Parts == 0 {
					continue
				}
				for i := range r.Parts {
					tx.Delete(key + "/" + strconv.Itoa(i))
				}
				r.Answer, r.Parts, r.Fences, r.At = nil, 0, nil, rec.Version
				tx.Put(key, r, &WriteOptions{Expires: rec.Expires})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
