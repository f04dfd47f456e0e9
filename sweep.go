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

// An Expirer ends the expired record rec: in one commit it deletes rec or makes it
// expire later. It must change rec only through sp. The commits of sp, and their events,
// have the last microsecond before rec.Expires as their time, not the time of the sweep:
// then rec may still be touched. An Expirer may run more than once and in several processes. If it cannot read rec or
// its key it returns ErrCorrupt, and the Store deletes rec.
type Expirer func(ctx context.Context, sp *Space, rec Record) error

// kindOf returns the first part of a key.
func kindOf(key string) string {
	kind, _, _ := strings.Cut(key, "/")
	return kind
}

// Expired is the data of the event about an expired record: see [TellExpired].
type Expired struct {
	Key   string                     `json:"key"`
	Value json.RawMessage            `json:"value"`
	Cut   bool                       `json:"cut,omitempty"`   // Value is null because the record's value does not fit into an event
	Below map[string]json.RawMessage `json:"below,omitempty"` // records under Key + "/", as many as fit
}

// FinalState returns the data of the event about the end of rec and of the records
// below it. It always fits into one event: values that are too large or nest too deep
// are left out.
func FinalState(rec Record, below []Record) Expired {
	final := Expired{Key: rec.Key, Value: rec.Value, Below: make(map[string]json.RawMessage)}
	if final.Cut = len(rec.Value) > maxNotifyBytes || journal.JSONDepth(rec.Value) >= journal.MaxEventDepth; final.Cut {
		final.Value = nil
	}
	size, room := 0, min(maxBelowBytes, maxNotifyBytes-len(final.Value))
	for _, r := range below {
		// JSON escapes may double a key; punctuation takes about 8 bytes.
		n := 2*len(r.Key) + len(r.Value) + 8
		if size+n < room && journal.JSONDepth(r.Value) <= journal.MaxEventDepth-2 {
			size += n
			final.Below[r.Key[len(rec.Key)+1:]] = r.Value
		}
	}
	return final
}

// expire ends the record under key if it has expired. It returns errors.ErrUnsupported
// if no concept of the Store declares the record: another process knows how to end it.
func (sp *Space) expire(ctx context.Context, key string) error {
	recs, err := sp.store.backend.Get(ctx, sp.name, key)
	if err != nil {
		return err
	}
	rec := recs[0]
	sp.store.concepts.storedRecord(&rec)
	if !rec.Exists() || !rec.Expired(sp.store.Now()) {
		return nil
	}
	// The commit has the last moment of the record's life as its time, when the record
	// may still be touched.
	return sp.end(ctx, rec, rec.Expires.Add(-time.Microsecond))
}

// end calls rec's Expirer, whose commit has the time at. If the Expirer finds the
// record corrupt, end logs a warning and deletes it, because every later write of the
// key would fail. It keeps the record after any other error, which is about what the
// Expirer tried to write.
func (sp *Space) end(ctx context.Context, rec Record, at time.Time) error {
	declared, _ := sp.store.concepts.Record(rec.Key)
	if declared == nil {
		return fmt.Errorf("%w: %s in %s has expired, and this program was given no concept that knows how it ends", errors.ErrUnsupported, rec.Key, sp.name)
	}
	then := sp.store.Space(sp.name)
	then.asOf, then.ends = &at, true
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
		return nil // another process ended it, or it was extended
	}
	return err
}

// maxEnding bounds the nesting of expirers: an Expirer may touch another expired
// record, whose Expirer then runs within it.
const maxEnding = journal.MaxDepth

// endings is a list of the records that a call is ending, innermost first.
type endings struct {
	store *Store
	recordName
	depth int
	outer *endings
}

type endingsKey struct{}

// ending adds the record under key to the endings of ctx. It returns an error if the
// record is being ended already: an Expirer that touches such a record through another
// handle than its own would be called for it again, endlessly.
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

// Bounds of the commit in which TellExpired ends a record: how many records below it
// the commit deletes, and how many of their bytes its event contains. The other records
// below are deleted right after.
const (
	maxBelow      = 120 // each is a check and a write
	maxBelowBytes = 256 << 10
)

// DeleteExpired is the Expirer of records for which none is declared. It deletes only
// rec and emits no event. It also ends records that their concept never lets expire, if
// a commit from outside gave them an expiry.
func DeleteExpired(ctx context.Context, sp *Space, rec Record) error {
	_, err := sp.commit(ctx, Commit{
		Checks: []Check{{Key: rec.Key, At: rec.Version}},
		Writes: []Write{{Key: rec.Key}},
	})
	return err
}

// TellExpired is an Expirer that deletes a Notify record and all records below it and
// emits an event with [Expired]. The event's type is <noun>.expired, where noun is the
// first part of the key; its stream is the first two parts of the key, or three below
// app/thread/. It handles other records as DeleteExpired does. It is the Expirer of the
// records of applications, below app/. An earlier version let applications write a
// record app/thread: it ends alone and without an event, because the records below it
// belong to threads.
func TellExpired(ctx context.Context, sp *Space, rec Record) error {
	if !rec.Notify || checkAppName(rec.Key) != nil {
		return DeleteExpired(ctx, sp, rec)
	}
	for { // until the event describes the records as they were at the commit
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

// deleteRest deletes the records below key that are left after the record under key
// ended at rest.At: those that did not fit into that commit, and those written before
// it but after the list. Records written later belong to a new record under key and
// stay. Last it deletes the note rest.Key, if there is one.
func (sp *Space) deleteRest(ctx context.Context, key string, rest Check) error {
	if err := sp.deleteSeen(ctx, key+"/", rest.At, nil); err != nil || rest.Key == "" {
		return err
	}
	_, err := sp.commit(ctx, Commit{Checks: []Check{rest}, Writes: []Write{{Key: rest.Key}}})
	return unlessGone(err)
}

// expireTree deletes rec and the records below it that fit into one commit. It returns
// the commit's position and, if more records may be left below, the key of a note from
// which a sweep deletes them if this process dies.
func expireTree(ctx context.Context, sp *Space, rec Record) (rest Check, err error) {
	c := Commit{
		Checks: []Check{{Key: rec.Key, At: rec.Version}},
		Writes: []Write{{Key: rec.Key}},
	}
	// List omits records that expired before rec: they end by themselves.
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

// expiredStream returns the stream of TellExpired's event. For a record that an
// application keeps for a thread, it is a stream of that thread, so that only its
// readers see the event.
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

// DeleteBelow deletes all records under key + "/", without events and in as many commits as
// necessary. It is for what is left after the record under key was deleted for ever.
func (sp *Space) DeleteBelow(ctx context.Context, key string) error {
	return sp.deleteSeen(ctx, key+"/", Position{}, nil)
}

// deleteSeen deletes the records under prefix that pick selects (nil: all). It deletes
// a record only at the version that it has listed; if that has changed, it lists again.
// If upTo is set, it deletes only records written up to that position.
func (sp *Space) deleteSeen(ctx context.Context, prefix string, upTo Position, pick func(Record) bool) error {
	ctx = WithoutIdempotencyKey(ctx) // repeating it is harmless
	for q := (ListQuery{Prefix: prefix, Limit: maxBelow}); ; {
		recs, err := sp.List(ctx, q)
		if err != nil || len(recs) == 0 {
			return err
		}
		last := recs[len(recs)-1].Key
		full := len(recs) == q.Limit
		if !upTo.IsZero() {
			// Read the head after the list: if the space has the position now, it had
			// it then.
			head, err := sp.Head(ctx)
			if err != nil || !head.Holds(upTo) {
				return err
			}
			recs = slices.DeleteFunc(recs, func(r Record) bool { return r.Version.Seq > upTo.Seq })
		}
		var c Commit
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
		case errors.As(err, &conflict) && ctx.Err() == nil:
		case err != nil || !full:
			return err
		default:
			q.After = last
		}
	}
}
