package thole

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/journal"
)

// Expirer ends what expired: it must remove rec, or make it expire later, in
// one commit of sp, through which alone rec may be touched. That commit carries the time of the expiry. It may run more
// than once, in several processes. ErrCorrupt says that it cannot read rec or its
// key, which is then deleted.
type Expirer func(ctx context.Context, sp *Space, rec Record) error

// kindOf is the first part of a key.
func kindOf(key string) string {
	kind, _, _ := strings.Cut(key, "/")
	return kind
}

// Expired is the data of the event that tells of an expired record: see [TellExpired].
type Expired struct {
	Key   string                     `json:"key"`
	Value json.RawMessage            `json:"value"`
	Cut   bool                       `json:"cut,omitempty"`   // Value is null: what was there does not fit into an event
	Below map[string]json.RawMessage `json:"below,omitempty"` // records under Key + "/", as far as they fit
}

// FinalState returns what an event tells of rec, which ends, and of the records
// below it. It fits into one event whatever they hold: values that are too large
// or nest too deep are left out.
func FinalState(rec Record, below []Record) Expired {
	final := Expired{Key: rec.Key, Value: rec.Value, Below: make(map[string]json.RawMessage)}
	if final.Cut = len(rec.Value) > maxNotifyBytes || journal.JSONDepth(rec.Value) >= journal.MaxEventDepth; final.Cut {
		final.Value = nil
	}
	size, room := 0, min(maxBelowBytes, maxNotifyBytes-len(final.Value))
	for _, r := range below {
		// A key may double in JSON, the punctuation is about 8 bytes.
		n := 2*len(r.Key) + len(r.Value) + 8
		if size+n < room && journal.JSONDepth(r.Value) <= journal.MaxEventDepth-2 {
			size += n
			final.Below[r.Key[len(rec.Key)+1:]] = r.Value
		}
	}
	return final
}

// expire ends the record under key if its time is up. It is errors.ErrUnsupported for
// one that no concept of the Store declares: another process knows how it ends.
func (sp *Space) expire(ctx context.Context, key string) error {
	recs, err := sp.store.backend.Get(ctx, sp.name, key)
	if err != nil {
		return err
	}
	rec := recs[0]
	if !rec.Exists() || !rec.Expired(sp.store.Now()) {
		return nil
	}
	// The commit's time is the last moment of the record's life, at which it
	// may still be touched.
	return sp.end(ctx, rec, rec.Expires.Add(-time.Microsecond))
}

// end ends rec as it is declared to end, in a commit of the given time. A
// record that the expirer finds corrupt is deleted, with a warning: it would fail
// every later write of its key. Any other refusal is of what the expirer wants to
// write, and no reason to lose the record.
func (sp *Space) end(ctx context.Context, rec Record, at time.Time) error {
	declared, _ := sp.store.concepts.Record(rec.Key)
	if declared == nil {
		return fmt.Errorf("%w: %s in %s has expired, and this program was given no concept that knows how it ends", errors.ErrUnsupported, rec.Key, sp.name)
	}
	then := sp.store.Space(sp.name)
	then.asOf = &at
	ctx, err := sp.ending(WithoutIdempotencyKey(ctx), rec.Key)
	if err != nil {
		return err
	}

	err = declared.Expire(ctx, then, rec)
	if !Reserved(rec.Key) && errors.Is(err, ErrCorrupt) {
		sp.store.log.Warn("an expired record that its concept cannot read is deleted", "space", sp.name, "key", rec.Key, "version", rec.Version)
		_, err = then.commit(ctx, Commit{
			Checks: []Check{{Key: rec.Key, At: rec.Version}},
			Writes: []Write{{Key: rec.Key}},
		})
	}
	if errors.Is(err, ErrConflict) {
		return nil // someone else ended it, or it lives on
	}
	return err
}

// maxEnding bounds how many records end within each other: the expirer of one meets
// the next, which has expired too.
const maxEnding = journal.MaxDepth

// endings are the records that a context's call ends, from the innermost out.
type endings struct {
	store *Store
	recordName
	depth int
	outer *endings
}

type endingsKey struct{}

// ending notes in ctx that the record under key is being ended. An expirer that
// touches its record, or one that is being ended around it, other than through the
// handle it was given would be called for it again, without end: that is an error.
func (sp *Space) ending(ctx context.Context, key string) (context.Context, error) {
	outer, _ := ctx.Value(endingsKey{}).(*endings)
	e := &endings{sp.store, recordName{sp.name, key}, 1, outer}
	if outer != nil {
		e.depth += outer.depth
	}
	if e.depth > maxEnding {
		return nil, fmt.Errorf("thole: end %s in %s: it would be within the ends of %d other records", key, sp.name, maxEnding)
	}
	for ; outer != nil; outer = outer.outer {
		if outer.store == sp.store && outer.recordName == e.recordName {
			return nil, fmt.Errorf("thole: end %s in %s: it is being ended already, by an expirer that did not use its handle for it", key, sp.name)
		}
	}
	return context.WithValue(ctx, endingsKey{}, e), nil
}

// Bounds of what TellExpired handles in the one commit that ends a
// record: how many records below it are deleted, and how much of them its event
// tells. The others below are deleted right after.
const (
	maxBelow      = 120 // each is a check and a write
	maxBelowBytes = 256 << 10
)

// DeleteExpired is the Expirer of records for which none is declared: it deletes rec
// alone and emits no event. Also a record that its concept keeps for good ends so, when
// a commit from outside made it expire.
func DeleteExpired(ctx context.Context, sp *Space, rec Record) error {
	_, err := sp.commit(ctx, Commit{
		Checks: []Check{{Key: rec.Key, At: rec.Version}},
		Writes: []Write{{Key: rec.Key}},
	})
	return err
}

// TellExpired is an Expirer that tells of the end: rec and all below it are deleted and,
// if it is a Notify record, the event <noun>.expired with [Expired], where noun is the
// first part of its key, goes to the stream named by the first two parts, or, below
// app/thread/, by the first three. So end the records that applications keep below app/.
// A record app/thread, which an earlier version let applications write, ends alone and
// without an event: what is below it belongs to threads.
func TellExpired(ctx context.Context, sp *Space, rec Record) error {
	if !rec.Notify || checkAppName(rec.Key) != nil {
		return DeleteExpired(ctx, sp, rec)
	}
	for { // the event tells what was there at the commit
		rest, err := expireTree(ctx, sp, rec)
		var conflict *ConflictError
		if errors.As(err, &conflict) && conflict.Check.Key != rec.Key && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
		return sp.deleteRest(ctx, rec.Key, rest)
	}
}

// deleteRest deletes what is left below the record under key, which ended at rest.At:
// what that commit could not hold, and what came before it and was not listed yet. What
// was written since is not of that record. Last goes the note rest.Key, if there is one.
func (sp *Space) deleteRest(ctx context.Context, key string, rest Check) error {
	if err := sp.deleteSeen(ctx, key+"/", rest.At, nil); err != nil || rest.Key == "" {
		return err
	}
	_, err := sp.commit(ctx, Commit{Checks: []Check{rest}, Writes: []Write{{Key: rest.Key}}})
	return unlessGone(err)
}

// expireTree ends rec with what is below it, as far as one commit can. It returns the
// position of that and, if there may be more, the note by which a sweep deletes it,
// should this process die.
func expireTree(ctx context.Context, sp *Space, rec Record) (rest Check, err error) {
	c := Commit{
		Checks: []Check{{Key: rec.Key, At: rec.Version}},
		Writes: []Write{{Key: rec.Key}},
	}
	// Without what expired before rec: that ends by itself.
	below, err := sp.List(ctx, ListQuery{Prefix: rec.Key + "/", Limit: maxBelow})
	if err != nil {
		return rest, err
	}
	for _, r := range below {
		c.Checks = append(c.Checks, Check{Key: r.Key, At: r.Version})
		c.Writes = append(c.Writes, Write{Key: r.Key})
	}
	if len(below) == maxBelow {
		value, err := marshal(erasure{Below: rec.Key})
		if err != nil {
			return rest, err
		}
		rest.Key = erasedKey + "/" + NewID("ers")
		c.Writes = append(c.Writes, Write{Key: rest.Key, Value: value, Expires: sp.store.Now().Add(erasureTTL)})
	}
	data, err := marshal(FinalState(rec, below))
	if err != nil {
		return rest, err
	}
	c.Events = []Event{{Stream: expiredStream(rec.Key), Type: kindOf(rec.Key) + ".expired", Data: data}}
	res, err := sp.commit(ctx, c)
	rest.At = res.Last
	return rest, err
}

// expiredStream is where TellExpired tells of a record's end. The end of
// what an application keeps for a thread is told below that thread, so that only
// those hear it who may.
func expiredStream(key string) string {
	n := 2
	if strings.HasPrefix(key, "app/thread/") {
		n = 3
	}
	parts := strings.Split(key, "/")
	if len(parts) == 1 {
		return key + "/"
	}
	return strings.Join(parts[:min(n, len(parts))], "/")
}

// DeleteBelow deletes every record under key + "/", without events, in as many
// commits as it takes: for what is left of something that is gone already. It stops
// when there is a record under key again: what is below belongs to that.
func (sp *Space) DeleteBelow(ctx context.Context, key string) error {
	gone := Check{Key: key}
	err := sp.deleteSeen(ctx, key+"/", Position{}, nil, gone)
	var conflict *ConflictError
	if errors.As(err, &conflict) && conflict.Check == gone {
		return nil
	}
	return err
}

// deleteSeen deletes the records under prefix that pick selects (nil: all), each only
// as it was seen: one that changes meanwhile is looked at again. With upTo only those
// that were written up to that position of the space go. The checks go with each commit.
func (sp *Space) deleteSeen(ctx context.Context, prefix string, upTo Position, pick func(Record) bool, checks ...Check) error {
	ctx = WithoutIdempotencyKey(ctx) // to do it again does no harm
	for q := (ListQuery{Prefix: prefix, Limit: maxBelow}); ; {
		recs, err := sp.List(ctx, q)
		if err != nil || len(recs) == 0 {
			return err
		}
		last := recs[len(recs)-1].Key
		full := len(recs) == q.Limit
		if !upTo.IsZero() {
			// After the list: if the space has the position now, it had it then.
			head, err := sp.Head(ctx)
			if err != nil || !head.Holds(upTo) {
				return err
			}
			recs = slices.DeleteFunc(recs, func(r Record) bool { return r.Version.Seq > upTo.Seq })
		}
		c := Commit{Checks: slices.Clone(checks)}
		for _, r := range recs {
			if pick == nil || pick(r) {
				c.Checks = append(c.Checks, Check{Key: r.Key, At: r.Version})
				c.Writes = append(c.Writes, Write{Key: r.Key})
			}
		}
		if len(c.Writes) > 0 {
			_, err = sp.commit(ctx, c)
		}
		var conflict *ConflictError
		switch {
		case errors.As(err, &conflict) && !slices.Contains(checks, conflict.Check) && ctx.Err() == nil:
		case err != nil || !full:
			return err
		default:
			q.After = last
		}
	}
}
