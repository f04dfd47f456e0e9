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

// withExtensions extends the lives of the records that c keeps alive. It returns c and its
// size with writes that move the records' expiries, and checks that the records have
// not changed since they were read. If these do not fit into the commit, or if apart is
// set, it moves the expiries at once, in commits of their own: an acknowledged write
// never belongs to a record that expires too early. Where c checks such a record, the
// check gets the record's new version. What an Expirer commits is nobody's use of the
// record and extends nothing.
func (sp *Space) withExtensions(ctx context.Context, c *Commit, size int, seen []sighting, apart bool) (Commit, int, error) {
	if sp.ends {
		return *c, size, nil
	}
	early, err := sp.tooEarly(ctx, c, seen)
	if err != nil || len(early) == 0 {
		return *c, size, err
	}
	if !apart {
		with := *c
		with.Checks, with.Writes = slices.Clip(c.Checks), slices.Clip(c.Writes)
		for _, e := range early {
			if check := (Check{Key: e.key, At: e.record.Version}); !slices.Contains(c.Checks, check) {
				with.Checks = append(with.Checks, check)
			}
			with.Writes = append(with.Writes, e.move(e.record, c.Now))
		}
		if size, err := checkCommit(&with); err == nil {
			return with, size, nil
		}
	}
	for _, e := range early {
		own := func(check Check) bool { return check.Key == e.key }
		i := slices.IndexFunc(c.Checks, own)
		if i >= 0 && c.Checks[i].At != e.record.Version {
			continue // c will fail on this check
		}
		moved, err := sp.extend(ctx, e, c.Now, i >= 0)
		if errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooLarge) {
			// An earlier version accepted this record, but it cannot be written again.
			sp.store.log.Warn("the end of a record cannot be moved on", "space", sp.name, "key", e.key, "error", err)
			continue
		}
		if err != nil {
			return *c, size, fmt.Errorf("move the end of %s: %w", e.key, err)
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

// extension is a record whose life a write extends, with its LivesOn function.
type extension struct {
	key    string
	ttl    func(Record) time.Duration
	record Record
}

// early reports whether rec expires too early if there is a write now.
func (e extension) early(rec Record, now time.Time) bool {
	return rec.Exists() && !rec.Expires.IsZero() && rec.Expires.Before(now.Add(e.ttl(rec)))
}

// move returns the write that extends rec.
func (e extension) move(rec Record, now time.Time) Write {
	ttl := e.ttl(rec)
	return Write{Key: e.key, Value: rec.Value, Schema: rec.Schema, Expires: now.Add(ttl + ttl/10), Notify: rec.Notify}
}

// tooEarly returns the records that c keeps alive and that would expire too early. It
// ignores records that c itself writes. It does not read again what an Update has read,
// because c checks that.
func (sp *Space) tooEarly(ctx context.Context, c *Commit, seen []sighting) ([]extension, error) {
	var all []extension
	add := func(name string) {
		key, ttl := sp.store.concepts.livesOn(name)
		if ttl == nil || slices.ContainsFunc(all, func(e extension) bool { return e.key == key }) ||
			slices.ContainsFunc(c.Writes, func(w Write) bool { return w.Key == key }) {
			return
		}
		all = append(all, extension{key: key, ttl: ttl})
	}
	for i := range c.Events {
		add(c.Events[i].Stream)
	}
	for i := range c.Writes {
		add(c.Writes[i].Key)
	}
	var early []extension
	for _, e := range all {
		var err error
		if i := slices.IndexFunc(seen, func(s sighting) bool { return s.key == e.key }); i >= 0 {
			e.record = seen[i].record
		} else if e.record, err = sp.Get(ctx, e.key); err != nil {
			return nil, err
		}
		if e.early(e.record, c.Now) {
			early = append(early, e)
		}
	}
	return early, nil
}

// extend extends e in a commit of its own, under the handle's fences, and returns the
// record's new version, or zero if it did nothing. If same is set, it does nothing if
// the record has changed since it was read. If the write that follows fails, the record
// lives a little longer than it should.
func (sp *Space) extend(ctx context.Context, e extension, now time.Time, same bool) (version Position, err error) {
	then := sp.store.Space(sp.name)
	then.fences = sp.fences
	then.asOf = &now // asOf keeps Update from waiting in the queue: the caller may hold the turn
	moves := false
	res, err := then.Update(WithoutIdempotencyKey(ctx), func(tx *Tx) error {
		rec, err := tx.Get(e.key)
		if moves = err == nil && e.early(rec, now) && (!same || rec.Version == e.record.Version); moves {
			tx.write(e.move(rec, now))
		}
		return err
	})
	if err != nil || !moves {
		return Position{}, err
	}
	return res.Last, nil
}
