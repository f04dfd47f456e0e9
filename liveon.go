package thole

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// livesOn returns the key of the record whose life a write or event under name extends,
// and its LivesOn function, or nil if there is none. See [RecordType].
func (cs *Concepts) livesOn(name string) (key string, ttl func(Record) time.Duration) {
	name = strings.TrimPrefix(name, "app/")
	noun, below, _ := strings.Cut(name, "/")
	r := cs.lives[noun]
	id, _, _ := strings.Cut(below, "/")
	if r == nil || id == "" {
		return "", nil
	}
	return name[:len(noun)+1+len(id)], r.LivesOn
}

// withMoves extends the lives of the records that c keeps alive. It returns c and its
// size with writes that move the records' expiries, and checks that the records have
// not changed since they were read. If these do not fit into the commit, or if apart is
// set, it moves the expiries at once, in commits of their own: an acknowledged write
// never belongs to a record that expires too early. Where c checks such a record, the
// check gets the record's new version.
func (sp *Space) withMoves(ctx context.Context, c *Commit, size int, seen []sighting, apart bool) (Commit, int, error) {
	early, err := sp.endEarly(ctx, c, seen)
	if err != nil || len(early) == 0 {
		return *c, size, err
	}
	if !apart {
		with := *c
		with.Checks, with.Writes = slices.Clip(c.Checks), slices.Clip(c.Writes)
		for _, o := range early {
			if check := (Check{Key: o.key, At: o.record.Version}); !slices.Contains(c.Checks, check) {
				with.Checks = append(with.Checks, check)
			}
			with.Writes = append(with.Writes, o.move(o.record, c.Now))
		}
		if size, err := checkCommit(&with); err == nil {
			return with, size, nil
		}
	}
	for _, o := range early {
		own := func(check Check) bool { return check.Key == o.key }
		i := slices.IndexFunc(c.Checks, own)
		if i >= 0 && c.Checks[i].At != o.record.Version {
			continue // c will fail on this check
		}
		moved, err := sp.moveEnd(ctx, o, c.Now, i >= 0)
		if errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooLarge) {
			// An earlier version accepted this record, but it cannot be written again.
			sp.store.log.Warn("the end of a record cannot be moved on", "space", sp.name, "key", o.key, "error", err)
			continue
		}
		if err != nil {
			return *c, size, fmt.Errorf("move the end of %s: %w", o.key, err)
		}
		if i >= 0 && !moved.IsZero() {
			c.Checks = slices.Clone(c.Checks)
			for i := range c.Checks {
				if own(c.Checks[i]) {
					c.Checks[i].At = moved
				}
			}
		}
	}
	return *c, size, nil
}

// owner is the key and the LivesOn function of a record whose life a write extends.
type owner struct {
	key string
	ttl func(Record) time.Duration
}

// owned is an owner with its record.
type owned struct {
	owner
	record Record
}

// early reports whether rec expires too early if there is a write now.
func (o owner) early(rec Record, now time.Time) bool {
	return rec.Exists() && !rec.Expires.IsZero() && rec.Expires.Before(now.Add(o.ttl(rec)))
}

// move returns the write that extends rec.
func (o owner) move(rec Record, now time.Time) Write {
	ttl := o.ttl(rec)
	return Write{Key: o.key, Value: rec.Value, Schema: rec.Schema, Expires: now.Add(ttl + ttl/10), Notify: rec.Notify}
}

// endEarly returns the records that c keeps alive and that would expire too early. It
// ignores records that c itself writes. It does not read again what an Update has read,
// because c checks that.
func (sp *Space) endEarly(ctx context.Context, c *Commit, seen []sighting) ([]owned, error) {
	var owners []owner
	look := func(name string) {
		key, ttl := sp.store.concepts.livesOn(name)
		if ttl == nil || slices.ContainsFunc(owners, func(o owner) bool { return o.key == key }) ||
			slices.ContainsFunc(c.Writes, func(w Write) bool { return w.Key == key }) {
			return
		}
		owners = append(owners, owner{key, ttl})
	}
	for i := range c.Events {
		look(c.Events[i].Stream)
	}
	for i := range c.Writes {
		look(c.Writes[i].Key)
	}
	var early []owned
	for _, o := range owners {
		var rec Record
		var err error
		if i := slices.IndexFunc(seen, func(s sighting) bool { return s.key == o.key }); i >= 0 {
			rec = seen[i].record
		} else if rec, err = sp.Get(ctx, o.key); err != nil {
			return nil, err
		}
		if o.early(rec, c.Now) {
			early = append(early, owned{o, rec})
		}
	}
	return early, nil
}

// moveEnd extends o in a commit of its own, under the handle's fences, and returns the
// record's new version, or zero if it did nothing. If same is set, it does nothing if
// the record has changed since it was read. If the write that follows fails, the record
// lives a little longer than it should.
func (sp *Space) moveEnd(ctx context.Context, o owned, now time.Time, same bool) (version Position, err error) {
	then := sp.store.Space(sp.name)
	then.fences = sp.fences
	then.asOf = &now // asOf keeps Update from waiting in the queue: the caller may hold the turn
	moves := false
	res, err := then.Update(WithoutIdempotencyKey(ctx), func(tx *Tx) error {
		rec, err := tx.Get(o.key)
		if moves = err == nil && o.early(rec, now) && (!same || rec.Version == o.record.Version); moves {
			tx.write(o.move(rec, now))
		}
		return err
	})
	if err != nil || !moves {
		return Position{}, err
	}
	return res.Last, nil
}
