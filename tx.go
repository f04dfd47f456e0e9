package thole

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Tx is a commit in the making: what its function read, and what it wants to
// change. Reading a record through Get also checks, at commit, that it is still
// the same, so a Tx is either applied to exactly what it saw or runs again.
type Tx struct {
	ctx      context.Context
	sp       *Space // as of now, so that reads, deadlines and the commit are of one time
	now      time.Time
	cached   bool       // Get may answer from memory
	fromMem  bool       // and did
	seen     []sighting // what Get read, before this Tx's own writes
	commit   Commit
	explicit int      // how many of the checks are the caller's own, at the front
	sent     []string // keys of what Send put
	keep     keep     // for the receipt
	err      error
}

// sighting is a record, or the absence of one, as a Tx read it.
type sighting struct {
	key    string
	record Record
}

// WriteOptions of [Tx.Put]. The zero value is a record that stays.
type WriteOptions struct {
	Schema  int
	Expires time.Time
	Notify  bool
}

// Update runs fn and commits what it asked for, as one step. When something
// that fn read through [Tx.Get] was changed meanwhile, fn runs again, so it
// must have no effect outside its Tx; it may run any number of times until ctx
// ends. When fn returns an error, nothing is committed and the error is
// returned. When fn asks for no event and no write, nothing is committed but the
// receipt of an idempotency key; the handle's fences and fn's own checks must hold
// all the same.
//
// Under contention the functions that touch one key take turns, first come
// first served, within one process.
//
// Errors are fn's and those of [Space.Commit]; a *ConflictError only for what
// fn itself asked for through [Tx.Check]. When ctx carries an idempotency key
// that was used already, fn does not run and Result.Repeated is set.
func (sp *Space) Update(ctx context.Context, fn func(tx *Tx) error) (Result, error) {
	d, err := sp.update(ctx, fn)
	return d.Result, err
}

func (sp *Space) update(ctx context.Context, fn func(tx *Tx) error) (done, error) {
	if sp.err != nil {
		return done{}, sp.err
	}
	given := ctx
	ctx = entered(ctx)
	if d, err := sp.receipt(ctx); err != nil || d.kept != nil {
		return d, err
	}
	var place *ticket // in the queue for a record that others contend for
	defer func() { place.leave() }()
	for attempt := 0; ; attempt++ {
		then := *sp
		now := sp.time()
		then.asOf = &now
		tx := &Tx{ctx: given, sp: &then, now: now, cached: attempt == 0}
		err := fn(tx)
		if err == nil {
			err = tx.err
		}
		nothing := len(tx.commit.Events) == 0 && len(tx.commit.Writes) == 0
		if err == nil && nothing && onceFrom(ctx) != nil {
			// The receipt is committed all the same, but makes no space.
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
				// The first try under the same idempotency key may have come between.
				if d, err := sp.receipt(ctx); err != nil || d.kept != nil {
					return d, err
				}
				return done{}, tx.holds(err)
			}
			// It was concluded from what was not so, or not at one time.
			if place == nil && attempt > 0 && sp.asOf == nil {
				place = sp.store.contention.enter(ctx, sp.name, changed)
			}
			continue
		}
		// What ends a record runs inside another commit, which may be first in the queue.
		if place == nil && sp.asOf == nil {
			if place = sp.store.contention.join(ctx, sp.name, tx.seen); place != nil {
				continue // it was not our turn: what was read is old by now
			}
		}
		res, err := then.commitWith(ctx, tx.commit, tx.keep, tx.seen)
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
			// Another process is at it: stand back for about one commit.
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

// holds evaluates, for a Tx that has nothing to commit, what its commit would
// have checked: the fences, then the caller's own checks, unless fn failed with
// err.
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

// Condition is what must be under a key for a change to be made. The zero
// Condition is anything. A version and Absent exclude each other.
type Condition struct {
	At     Position // this version
	Exists bool     // some version
	Absent bool     // nothing
}

// Require is [Tx.Get] for a key with a condition: *ConflictError when that does
// not hold. It is decided with the commit: one that would see another record
// runs the function again.
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

// changed returns the key of a record that is no longer as tx read it, or "". One
// record that was read from the store just now counts as unchanged.
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

// Now returns the time of this Tx: its commit, events and records carry it, and
// deadlines count from it.
func (tx *Tx) Now() time.Time { return tx.now }

// Get returns the record under key as this Tx sees it; absent or expired: the
// zero Record. At commit it must be unchanged. What this Tx has put itself is
// returned as put, with the version it replaces (zero: none, or not read) and
// [Record.Exists]; what it has deleted is absent.
func (tx *Tx) Get(key string) (Record, error) {
	seen := slices.IndexFunc(tx.seen, func(s sighting) bool { return s.key == key })
	if w := tx.written(key); w != nil {
		if w.Value == nil {
			return Record{}, nil
		}
		r := Record{Key: key, Value: slices.Clone(w.Value), Schema: w.Schema,
			Updated: tx.now, Expires: w.Expires, Notify: w.Notify, Pending: true}
		if seen >= 0 {
			r.Version = tx.seen[seen].record.Version
		}
		return r, nil
	}
	if seen >= 0 {
		r := tx.seen[seen].record
		r.Value = slices.Clone(r.Value)
		return r, nil
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
	rec.Value = slices.Clone(rec.Value)
	return rec, nil
}

// Load is Get and Record.As: it reads the record's value into v and reports
// whether there is one. At commit it must be unchanged.
func (tx *Tx) Load(key string, v any) (bool, error) {
	rec, err := tx.Get(key)
	if err != nil || rec.Value == nil {
		return false, err
	}
	return true, rec.As(v)
}

// Version returns the position of the last event of stream; zero: it has none. At
// commit there must be no later one.
func (tx *Tx) Version(stream string) (Position, error) {
	at, err := tx.sp.version(tx.ctx, Check{Stream: stream})
	if err != nil {
		return Position{}, err
	}
	tx.commit.Checks = append(tx.commit.Checks, Check{Stream: stream, At: at})
	return at, nil
}

// List is [Space.List]. What it returns is not checked at commit, nor does it
// see this Tx's own writes: Get what must be unchanged.
func (tx *Tx) List(q ListQuery) ([]Record, error) { return tx.sp.List(tx.ctx, q) }

// Check adds a condition of the caller's own. When it does not hold, Update
// returns its *ConflictError.
func (tx *Tx) Check(c Check) {
	tx.commit.Checks = slices.Insert(tx.commit.Checks, tx.explicit, c)
	tx.explicit++
}

// Put writes v as JSON under key; a later Put or Delete of the key replaces it.
// Nil opts mean the zero options.
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

// Delete removes the record under key; one that is absent stays so.
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

// Emit adds an event of the given type, with data as JSON, to stream. It
// returns the event, to which Refs, Subject and Schema may be added until the
// next Emit.
func (tx *Tx) Emit(stream, typ string, data any) *Event {
	raw, err := marshal(data)
	if err != nil {
		tx.fail(fmt.Errorf("emit %s: %w", typ, err))
	}
	tx.commit.Events = append(tx.commit.Events, Event{Stream: stream, Type: typ, Data: raw, Schema: tx.sp.store.concepts.schema(typ)})
	return &tx.commit.Events[len(tx.commit.Events)-1]
}

// answer keeps v for the receipt, if there will be one.
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
