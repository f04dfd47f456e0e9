package thole

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Tx is a transaction of [Space.Update]: what its function has read, and the commit it
// builds. A record read through Get is checked at commit, so the Tx is either applied
// to exactly what it read or runs again.
type Tx struct {
	ctx      context.Context
	sp       Space // with asOf set to now, so that reads, deadlines and the commit have the same time
	now      time.Time
	cached   bool       // Get may read from memory
	fromMem  bool       // Get has read from memory
	seen     []sighting // what Get has read, before this Tx's own writes
	commit   Commit
	explicit int      // the number of checks, at the front, that the caller added through Check
	sent     []string // keys of the messages that Send put
	keep     keep     // what goes into the receipt
	err      error

	// Room for the lists above, which are this short in most updates.
	room struct {
		seen   [1]sighting
		checks [1]Check
		events [1]Event
		writes [1]Write
	}
}

// newTx returns the Tx of one attempt at an update of sp.
func newTx(ctx context.Context, sp *Space, attempt int) *Tx {
	tx := &Tx{ctx: ctx, sp: *sp, now: sp.time(), cached: attempt == 0}
	tx.sp.asOf = &tx.now
	tx.seen = tx.room.seen[:0]
	tx.commit = Commit{Checks: tx.room.checks[:0], Events: tx.room.events[:0], Writes: tx.room.writes[:0]}
	return tx
}

// sighting is a record as a Tx read it; zero if it was absent.
type sighting struct {
	key    string
	record Record
}

// WriteOptions are options of [Tx.Put]. With the zero value, the record never expires.
type WriteOptions struct {
	Schema int // version of the value's shape: see [Schema]; 0: none

	// Expires is when the record ends; zero: never. From then on it is absent for
	// readers, and a sweep soon calls the Expirer of its RecordType.
	Expires time.Time

	// Notify makes sure that the Expirer ends the expired record before anyone writes
	// under its key again or checks it. Without Notify such a write replaces the expired
	// record, and if it comes before the sweep, the Expirer never runs. Set it if the
	// Expirer does more than delete the record, such as emit an event.
	Notify bool
}

// Update runs fn and applies the events, writes and checks that it added to tx in one
// commit. If a record that fn read through [Tx.Get] has changed meanwhile, fn runs
// again, any number of times until ctx ends, so fn must have no effects outside its Tx.
// If fn returns an error, nothing is committed and Update returns that error. If fn
// adds no event and no write, only the receipt of an idempotency key is committed, if
// there is one; the handle's fences and the checks of fn must still hold.
//
// Under contention, the updates of one process that read the same key take turns, first
// come, first served.
//
// Errors: those of fn and of [Space.Commit], but *ConflictError only for a check added
// through [Tx.Check]. If ctx has an idempotency key that was used before, fn does not
// run and Result.Repeated is set.
func (sp *Space) Update(ctx context.Context, fn func(tx *Tx) error) (Result, error) {
	d, err := sp.update(ctx, fn)
	return d.Result, err
}

func (sp *Space) update(ctx context.Context, fn func(tx *Tx) error) (done, error) {
	if sp.err != nil {
		return done{}, sp.err
	}
	given := ctx
	ctx, err := sp.entered(ctx)
	if err != nil {
		return done{}, err
	}
	if d, err := sp.receipt(ctx); err != nil || d.kept != nil {
		return d, err
	}
	var place *ticket // our place in the queue for a contended record
	defer func() { place.leave() }()
	for attempt := 0; ; attempt++ {
		tx := newTx(given, sp, attempt)
		err := fn(tx)
		if err == nil {
			err = tx.err
		}
		nothing := len(tx.commit.Events) == 0 && len(tx.commit.Writes) == 0
		if err == nil && nothing && onceFrom(ctx) != nil {
			// The receipt is committed even so, unless that would create the space.
			head, headErr := sp.Head(ctx)
			if headErr != nil {
				return done{}, headErr
			}
			nothing = head.Last.IsZero()
		}
		if err != nil || nothing {
			changed, readErr := tx.changed()
			if readErr != nil {
				return done{}, readErr
			}
			if changed == "" {
				// Another call with the same idempotency key may have committed
				// meanwhile.
				if d, err := sp.receipt(ctx); err != nil || d.kept != nil {
					return d, err
				}
				return done{}, tx.holds(err)
			}
			// What fn decided, it decided on stale or inconsistent reads.
			if place == nil && attempt > 0 && sp.asOf == nil {
				place = sp.store.contention.enter(ctx, sp.name, changed)
			}
			continue
		}
		// An expirer (asOf is set) runs inside another commit, which may hold the
		// queue: it must not wait.
		if place == nil && sp.asOf == nil {
			if place = sp.store.contention.join(ctx, sp.name, tx.seen); place != nil {
				continue // we waited, so what fn read may be stale
			}
		}
		res, err := tx.sp.commitWith(ctx, tx.commit, tx.keep, tx.seen)
		if err == nil {
			sp.deliverNow(ctx, tx.sent)
			return res, nil
		}
		var conflict *ConflictError
		if !errors.As(err, &conflict) || slices.Contains(tx.commit.Checks[:tx.explicit], conflict.Check) {
			return res, err
		}
		sp.store.records.Drop(sp.name, conflict.Check.Key)
		if place == nil && sp.asOf == nil {
			place = sp.store.contention.enter(ctx, sp.name, conflict.Check.Key)
		} else if attempt > 2 {
			// Another process contends: wait for about the time of a commit.
			pause(ctx, time.Duration(rand.Int64N(int64(time.Millisecond)<<min(attempt, 5))))
		}
		if ctx.Err() != nil {
			return done{}, context.Cause(ctx)
		}
	}
}

func (sp *Space) time() time.Time {
	if sp.asOf != nil {
		return *sp.asOf
	}
	return sp.store.Now()
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// holds evaluates, for a Tx with nothing to commit, what a commit would check: the
// fences, then, unless fn failed with err, the caller's own checks.
func (tx *Tx) holds(err error) error {
	if lost := tx.sp.unfenced(tx.ctx); lost != nil {
		return lost
	}
	if err != nil {
		return err
	}
	for _, check := range tx.commit.Checks[:tx.explicit] {
		actual, err := tx.sp.version(tx.ctx, check)
		if err != nil {
			return err
		}
		if actual != check.At {
			return &ConflictError{Space: tx.sp.name, Check: check, Actual: actual}
		}
	}
	return nil
}

// Condition is what a record must be for a change to be made. The zero Condition always
// holds. At and Absent exclude each other.
type Condition struct {
	At     Position // the record has this version
	Exists bool     // the record exists
	Absent bool     // the record does not exist
}

// Require is [Tx.Get] with a condition on the record: it returns *ConflictError if c
// does not hold. Like all reads through Get it is checked at commit: if the record has
// changed by then, fn runs again.
func (tx *Tx) Require(key string, c Condition) (Record, error) {
	rec, err := tx.Get(key)
	if err != nil {
		return rec, err
	}
	if !c.At.IsZero() && rec.Version != c.At || c.Exists && !rec.Exists() || c.Absent && rec.Exists() {
		return rec, &ConflictError{Space: tx.sp.name, Check: Check{Key: key, At: c.At}, Actual: rec.Version}
	}
	return rec, nil
}

// changed returns the key of a record that has changed since tx read it, or "". A
// single record that was read from the store, not from memory, counts as unchanged.
func (tx *Tx) changed() (key string, err error) {
	if len(tx.seen) == 0 || len(tx.seen) == 1 && !tx.fromMem {
		return "", nil
	}
	keys := make([]string, len(tx.seen))
	for i, s := range tx.seen {
		keys[i] = s.key
	}
	recs, err := tx.sp.GetAll(tx.ctx, keys...)
	if err != nil {
		return "", err
	}
	for i, k := range keys {
		if recs[i].Version != tx.seen[i].record.Version {
			tx.sp.store.records.Drop(tx.sp.name, k)
			key = k
		}
	}
	return key, nil
}

// Context returns the context that Update was called with.
func (tx *Tx) Context() context.Context { return tx.ctx }

// Now returns the time of this Tx. Its commit, events and records have this time. That of
// an Expirer's is when its record expired, which may be long ago.
func (tx *Tx) Now() time.Time { return tx.now }

// Expiry returns the time at which something expires that lives for ttl from now on. It
// counts from the present also in an Expirer: what others wrote since the record expired
// must not end with it.
func (tx *Tx) Expiry(ttl time.Duration) time.Time {
	now := tx.now
	if present := tx.sp.store.Now(); tx.sp.ends && present.After(now) {
		now = present
	}
	return now.Add(ttl)
}

// Get returns the record under key; the zero Record if it is absent or has expired. If
// it has changed by the time of the commit, fn runs again. A record that this Tx has
// put itself is returned as put: it exists, and Version is the version it replaces
// (zero: none, or not read). A record that this Tx has deleted is absent.
func (tx *Tx) Get(key string) (Record, error) {
	rec, err := tx.get(key)
	rec.Value = slices.Clone(rec.Value)
	return rec, err
}

// get is Get without the copy of the value, which must not be changed.
func (tx *Tx) get(key string) (Record, error) {
	seen := slices.IndexFunc(tx.seen, func(s sighting) bool { return s.key == key })
	if w := tx.written(key); w != nil {
		if w.Value == nil {
			return Record{}, nil
		}
		r := Record{Key: key, Value: w.Value, Schema: w.Schema,
			Updated: tx.now, Expires: w.Expires, Notify: w.Notify, Pending: true}
		if seen >= 0 {
			r.Version = tx.seen[seen].record.Version
		}
		return r, nil
	}
	if seen >= 0 {
		return tx.seen[seen].record, nil
	}
	var rec Record
	var err error
	if tx.cached {
		var hit bool
		if rec, hit = tx.sp.store.records.Get(tx.sp.name, key); hit {
			tx.fromMem = true
			if rec.Expired(tx.now) {
				rec = Record{}
			}
			tx.sp.store.concepts.liftRecord(&rec)
		} else {
			rec, err = tx.sp.Get(tx.ctx, key)
		}
	} else {
		rec, err = tx.sp.Get(tx.ctx, key)
	}
	if err != nil {
		return Record{}, err
	}
	tx.seen = append(tx.seen, sighting{key, rec})
	tx.commit.Checks = append(tx.commit.Checks, Check{Key: key, At: rec.Version})
	return rec, nil
}

// Load is Get followed by Record.As: it decodes the record's value into v and reports
// whether the record exists.
func (tx *Tx) Load(key string, v any) (bool, error) {
	rec, err := tx.get(key)
	if err != nil || rec.Value == nil {
		return false, err
	}
	return true, rec.As(v)
}

// Version returns the position of the last event of stream, or zero if it has none. If
// the stream has a later event by the time of the commit, fn runs again.
func (tx *Tx) Version(stream string) (Position, error) {
	at, err := tx.sp.version(tx.ctx, Check{Stream: stream})
	if err != nil {
		return Position{}, err
	}
	tx.commit.Checks = append(tx.commit.Checks, Check{Stream: stream, At: at})
	return at, nil
}

// List is [Space.List]. Its result is not checked at commit and does not include this
// Tx's own writes. Use Get for records that must not change.
func (tx *Tx) List(q ListQuery) ([]Record, error) { return tx.sp.List(tx.ctx, q) }

// Check adds c to the commit. If it does not hold, Update returns its *ConflictError
// instead of running fn again.
func (tx *Tx) Check(c Check) {
	tx.commit.Checks = slices.Insert(tx.commit.Checks, tx.explicit, c)
	tx.explicit++
}

// Put writes v as JSON under key. A later Put or Delete of the key replaces it. Nil
// opts are the zero WriteOptions.
func (tx *Tx) Put(key string, v any, opts *WriteOptions) {
	data, err := marshal(v)
	if err != nil {
		tx.fail(fmt.Errorf("put %s: %w", key, err))
		return
	}
	w := Write{Key: key, Value: data}
	if opts != nil {
		w.Schema, w.Expires, w.Notify = opts.Schema, opts.Expires, opts.Notify
	}
	tx.write(w)
}

// Delete deletes the record under key. If there is none, it does nothing.
func (tx *Tx) Delete(key string) { tx.write(Write{Key: key}) }

func (tx *Tx) write(w Write) {
	if old := tx.written(w.Key); old != nil {
		*old = w
		return
	}
	tx.commit.Writes = append(tx.commit.Writes, w)
}

// written returns this Tx's own write of key, or nil.
func (tx *Tx) written(key string) *Write {
	for i := range tx.commit.Writes {
		if tx.commit.Writes[i].Key == key {
			return &tx.commit.Writes[i]
		}
	}
	return nil
}

// Emit adds an event of the given type to stream, with data as JSON. It returns the
// event, whose Refs, Subject and Schema the caller may set until the next Emit.
func (tx *Tx) Emit(stream, typ string, data any) *Event {
	raw, err := marshal(data)
	if err != nil {
		tx.fail(fmt.Errorf("emit %s: %w", typ, err))
	}
	tx.commit.Events = append(tx.commit.Events, Event{Stream: stream, Type: typ, Data: raw, Schema: tx.sp.store.concepts.schema(typ)})
	return &tx.commit.Events[len(tx.commit.Events)-1]
}

// answer stores v as the answer in the receipt, if there will be one.
func (tx *Tx) answer(v any) {
	if _, nothing := v.(struct{}); nothing || onceFrom(tx.ctx) == nil {
		return
	}
	data, err := marshal(v)
	if err != nil {
		tx.fail(fmt.Errorf("answer: %w", err))
	}
	tx.keep.answer = data
}

func (tx *Tx) fail(err error) {
	if tx.err == nil {
		tx.err = err
	}
}
