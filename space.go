package thole

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/thole-dev/thole/journal"
)

// Space is a handle on one space: its name, and the actor, cause and fences of its
// commits. Handles are cheap and immutable; [Space.As], [Space.Because] and
// [Space.Under] derive others.
type Space struct {
	store  *Store
	name   string
	actor  string
	caller string // the actor that idempotency keys belong to; "": actor
	cause  string
	fences []Fence
	asOf   *time.Time // the time of reads and commits, in a Tx or an expiry; nil: now
	owner  string     // the concept whose package holds the handle: see For
	ends   bool       // it is an Expirer's: its commits extend no lives
	err    error      // why calls through the handle fail, such as a malformed name; or nil
	old    bool       // only a space made by an earlier version may have this name
}

// Name returns the space's name.
func (sp *Space) Name() string { return sp.name }

// Store returns the Store of the space.
func (sp *Space) Store() *Store { return sp.store }

// For returns a handle for the package of the named concept. If the Store does not have
// the concept, every call on the handle fails with ErrInvalid; so does a commit under an
// idempotency key that no [Call] names.
func (sp *Space) For(concept string) *Space {
	if sp.err != nil {
		return sp
	}
	c := *sp
	c.owner = concept
	if sp.store.concepts.has(concept) {
		return &c
	}
	c.err = invalidf("the store was not given the concept %s: see Options.Concepts of thole.Open", concept)
	return &c
}

// Actor returns the actor of the handle's commits.
func (sp *Space) Actor() string { return sp.actor }

// As returns a handle whose commits are made by actor ("user:42", "agent:coder").
func (sp *Space) As(actor string) *Space {
	c := *sp
	c.actor, c.caller = actor, ""
	return &c
}

// InNameOf is like As, but idempotency keys still belong to sp's actor. It is for an
// actor that acts on behalf of another.
func (sp *Space) InNameOf(actor string) *Space {
	c := *sp
	c.actor, c.caller = actor, cmp.Or(sp.caller, sp.actor)
	return &c
}

// Because returns a handle whose commits have the given cause: the id of a request
// (sess_…), a run or an event.
func (sp *Space) Because(cause string) *Space {
	c := *sp
	c.cause = cause
	return &c
}

// Under returns a handle whose commits also fail with ErrFenced once f's lease has
// another holder.
func (sp *Space) Under(f Fence) *Space {
	c := *sp
	c.fences = append(slices.Clip(sp.fences), f)
	c.owner = "" // a concept gives it to the lease's holder, whose commits need no name
	return &c
}

// WithoutFences returns a handle without fences, for a fact that must be recorded even
// if the lease was lost.
func (sp *Space) WithoutFences() *Space {
	c := *sp
	c.fences = nil
	return &c
}

// Commit applies c and returns its positions. It sets Space, Now, Actor and Cause and
// does not change c. Errors: *ConflictError for the first check that does not hold,
// ErrFenced, ErrInvalid, ErrTooLarge, ErrClosed, or the backend's error. After a
// backend's error, or when ctx ends, it is unknown whether c was applied; with an
// idempotency key on ctx (see [WithIdempotencyKey]) the caller may safely try again.
func (sp *Space) Commit(ctx context.Context, c Commit) (Result, error) {
	ctx, err := sp.entered(ctx)
	if err != nil {
		return Result{}, err
	}
	if d, err := sp.receipt(ctx); err != nil || d.kept != nil {
		return d.Result, err
	}
	return sp.commit(ctx, c.Clone())
}

// commit is Commit without the copy of c and without looking for a receipt.
func (sp *Space) commit(ctx context.Context, c Commit) (Result, error) {
	d, err := sp.commitWith(ctx, c, keep{}, nil)
	return d.Result, err
}

// commitWith is commit with the content of the receipt and with the records that an
// Update has read and c checks.
func (sp *Space) commitWith(ctx context.Context, c Commit, k keep, seen []sighting) (done, error) {
	if sp.err != nil {
		return done{}, sp.err
	}
	c.Space, c.Actor, c.Cause = sp.name, sp.actor, sp.cause
	ctx, err := sp.entered(ctx)
	if err != nil {
		return done{}, err
	}
	once := onceFrom(ctx)
	if n := len(sp.fences); n > 0 || once != nil {
		checks := make([]Check, 0, n+1+len(c.Checks))
		if once != nil {
			checks = append(checks, Check{Key: once.key(sp)})
			c.Writes = append(c.Writes, once.receipt(sp, len(c.Events), k)...)
		}
		for _, f := range sp.fences {
			checks = append(checks, Check{Key: f.Key, At: f.Token})
		}
		c.Checks = append(checks, c.Checks...)
	}
	size, err := checkCommit(&c)
	if err == nil {
		err = sp.readable(ctx)
	}
	if err != nil {
		return done{}, err
	}
	for sweeps, apart := 0, false; ; {
		c.Now = sp.time()
		whole, size, err := sp.withExtensions(ctx, &c, size, seen, apart)
		if err != nil {
			return done{}, fmt.Errorf("commit to %s: %w", sp.name, err)
		}
		res, err := sp.store.commits.Commit(ctx, whole, size)
		switch {
		case err != nil:
			return done{}, fmt.Errorf("commit to %s: %w", sp.name, err)
		case res.Conflict == nil:
			if once != nil {
				once.call.made.Add(1)
			}
			return done{Result: res}, nil
		case res.Conflict.Expired:
			if err := sp.expire(ctx, res.Conflict.Check.Key); err != nil {
				return done{}, err
			}
			if sweeps++; sweeps > MaxCommitItems {
				return done{}, fmt.Errorf("commit to %s: %w: the expirer of %s leaves it expired", sp.name, ErrConflict, res.Conflict.Check.Key)
			}
		case once != nil && res.Conflict.Check.Key == once.key(sp):
			if d, err := sp.receipt(ctx); err != nil || d.kept != nil {
				return d, err
			} // else the receipt has just expired: try again
		case sp.isFence(res.Conflict.Check):
			return done{}, sp.fencedBy(res.Conflict.Check.Key)
		case len(whole.Checks) > len(c.Checks) && !slices.Contains(c.Checks, res.Conflict.Check):
			apart = true // a record whose life c extends has changed: extend it in a commit of its own
		default:
			return done{}, res.Conflict
		}
	}
}

func (sp *Space) fencedBy(key string) error {
	return fmt.Errorf("%s: %w: the lease %s has another holder", sp.name, ErrFenced, key)
}

// unfenced returns ErrFenced if one of the handle's fences does not hold now. It is for
// actions other than commits, which check the fences themselves.
func (sp *Space) unfenced(ctx context.Context) error {
	for _, f := range sp.fences {
		actual, err := sp.version(ctx, Check{Key: f.Key})
		if err != nil {
			return err
		}
		if actual != f.Token {
			return sp.fencedBy(f.Key)
		}
	}
	return nil
}

// version returns the current version of the record or stream that c names.
func (sp *Space) version(ctx context.Context, c Check) (Position, error) {
	if c.Key != "" {
		rec, err := sp.Get(ctx, c.Key)
		return rec.Version, err
	}
	page, err := sp.Read(ctx, ReadQuery{Stream: c.Stream, Backward: true, Limit: 1})
	if err != nil || len(page.Events) == 0 {
		return Position{}, err
	}
	return page.Events[0].Position, nil
}

func (sp *Space) isFence(c Check) bool {
	return slices.ContainsFunc(sp.fences, Fence{Key: c.Key, Token: c.At}.Is)
}

// readable returns an error if the handle is invalid, or if its name is one that only
// an old space may have and there is no such space: the name is then a mistake, such as
// a pattern, that would otherwise read as an empty space.
func (sp *Space) readable(ctx context.Context) error {
	if sp.err != nil || !sp.old {
		return sp.err
	}
	return sp.store.admit(ctx, sp.name)
}

// Get returns the record under key. If it is absent or has expired, Get returns the
// zero Record: see [Record.Exists].
func (sp *Space) Get(ctx context.Context, key string) (Record, error) {
	recs, err := sp.GetAll(ctx, key)
	if err != nil {
		return Record{}, err
	}
	return recs[0], nil
}

// GetAll returns one Record for each key, in the order of the keys; the zero Record for
// one that is absent or has expired.
func (sp *Space) GetAll(ctx context.Context, keys ...string) ([]Record, error) {
	if err := sp.readable(ctx); err != nil {
		return nil, err
	}
	for _, k := range keys {
		if err := journal.CheckName("key", k); err != nil {
			return nil, err
		}
	}
	recs, err := sp.store.backend.Get(ctx, sp.name, keys...)
	if err != nil {
		return nil, fmt.Errorf("get %s from %s: %w", keys, sp.name, err)
	}
	for i := range recs {
		sp.store.observed(recs[i].Updated, sp.name, recs[i].Key)
		if recs[i].Expired(sp.time()) {
			recs[i] = Record{}
		}
		sp.store.concepts.storedRecord(&recs[i])
	}
	return recs, nil
}

// List returns records in the byte order of their keys, without expired ones (unless
// q.DueBy asks for them). If it returns fewer than q.Limit, there are no more; to
// continue, set q.After to the last key.
func (sp *Space) List(ctx context.Context, q ListQuery) ([]Record, error) {
	if err := sp.readable(ctx); err != nil {
		return nil, err
	}
	if err := journal.CheckPrefix(q.Prefix); err != nil {
		return nil, err
	}
	q.Limit = journal.PageLimit(q.Limit)
	var out []Record
	for limit := q.Limit; ; {
		recs, err := sp.store.backend.List(ctx, sp.name, q)
		if err != nil {
			return nil, fmt.Errorf("list %q in %s: %w", q.Prefix, sp.name, err)
		}
		for i := range recs {
			sp.store.observed(recs[i].Updated, sp.name, recs[i].Key)
			sp.store.concepts.storedRecord(&recs[i])
		}
		last := len(recs) < q.Limit
		if len(recs) > 0 {
			q.After = recs[len(recs)-1].Key
		}
		if q.DueBy.IsZero() {
			now := sp.time()
			recs = slices.DeleteFunc(recs, func(r Record) bool { return r.Expired(now) })
		}
		out = append(out, recs...)
		q.Limit = limit - len(out)
		if last || q.Limit <= 0 {
			return out, nil
		}
	}
}

// Records iterates over all records under prefix in key order, a page at a time. It may
// or may not see commits made meanwhile.
func (sp *Space) Records(ctx context.Context, prefix string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for q := (ListQuery{Prefix: prefix}); ; {
			recs, err := sp.List(ctx, q)
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, r := range recs {
				if !yield(r, nil) {
					return
				}
			}
			if len(recs) < MaxPage {
				return
			}
			q.After = recs[len(recs)-1].Key
		}
	}
}

// Read returns a page of the journal, or *TrimmedError if q.After cannot be resumed.
func (sp *Space) Read(ctx context.Context, q ReadQuery) (Page, error) {
	if err := sp.readable(ctx); err != nil {
		return Page{}, err
	}
	q.Limit = journal.PageLimit(q.Limit)
	p, err := sp.store.backend.Read(ctx, sp.name, q)
	if err != nil {
		return Page{}, fmt.Errorf("read %s: %w", sp.name, err)
	}
	for i := range p.Events {
		sp.store.concepts.stored(&p.Events[i])
	}
	if n := len(p.Events); n > 0 {
		e := &p.Events[n-1]
		sp.store.observed(e.Time, sp.name, "event "+e.Position.String())
	}
	return p, nil
}

// Events iterates over the events that q selects, a page at a time, until there are no
// more.
func (sp *Space) Events(ctx context.Context, q ReadQuery) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			page, err := sp.Read(ctx, q)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range page.Events {
				if !yield(e, nil) {
					return
				}
			}
			switch {
			case page.Next.IsZero():
				return
			case q.Backward:
				q.Before = page.Next
			default:
				q.After = page.Next
			}
		}
	}
}

// Head returns where the space's journal begins and ends. If the space does not exist,
// Last is zero.
func (sp *Space) Head(ctx context.Context) (Head, error) {
	if err := sp.readable(ctx); err != nil {
		return Head{}, err
	}
	heads, err := sp.store.backend.Heads(ctx, sp.name)
	if err != nil {
		return Head{}, fmt.Errorf("head of %s: %w", sp.name, err)
	}
	return heads[0], nil
}

// Purge permanently removes what p names from the space and leaves no trace in the
// journal. It also deletes the snapshots of removed streams and of the streams of
// redacted events. Watchers whose position was removed get ErrTrimmed. Once Purge has
// returned, no Store on the backend serves removed data from memory, except that a
// watcher of another process may still receive it until that process polls next. The
// handle's fences must hold when Purge begins; a lease that is lost later does not stop
// it. After an error, part of p may have been removed: call Purge again. If the process
// dies or the backend fails while streams or events are being removed, a sweep finishes
// the removal. It never removes what is committed to the streams after Purge has
// returned.
func (sp *Space) Purge(ctx context.Context, p Purge) error {
	if sp.err != nil {
		return sp.err
	}
	if err := sp.unfenced(ctx); err != nil {
		return err
	}
	if len(p.Streams) == 0 && len(p.Events) == 0 {
		return sp.store.Purge(ctx, sp.name, p) // its errors say what was purged
	}
	if err := sp.erase(ctx, p); err != nil {
		return fmt.Errorf("purge %s: %w", sp.name, err)
	}
	return nil
}

// marshal encodes v as JSON without HTML escapes. It copies a RawMessage as it is.
func marshal(v any) (json.RawMessage, error) {
	if raw, ok := v.(json.RawMessage); ok {
		if raw == nil {
			return json.RawMessage("null"), nil
		}
		return slices.Clone(raw), nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, errors.Join(ErrInvalid, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
