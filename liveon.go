package thole

import (
	"context"
	"slices"
	"strings"
	"time"
)

// LivesOn declares that a record <kind>/<id> that expires lives on while something is
// written that belongs to it: below <kind>/<id>/, in its stream <kind>/<id>, and below
// app/<kind>/<id>/. ttl returns how long it lives after that. Whatever is committed
// through a Space moves the record's end if need be, in a commit of its own right
// after, at most once in a tenth of the ttl: so it may end up to a tenth later. The
// record's value stays as it is, its version does not.
func (s *Store) LivesOn(kind string, ttl func(rec Record) time.Duration) {
	s.expiry.mu.Lock()
	defer s.expiry.mu.Unlock()
	s.expiry.lives[kind] = ttl
}

// owner returns the record that lives on by a write under name, and for how long
// after; nil: there is none.
func (e *expiry) owner(name string) (key string, ttl func(Record) time.Duration) {
	name = strings.TrimPrefix(name, "app/")
	kind, below, _ := strings.Cut(name, "/")
	id, _, _ := strings.Cut(below, "/")
	if id == "" {
		return "", nil
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return kind + "/" + id, e.lives[kind]
}

// liveOn moves the ends of what lives on by c, which was committed after it had seen
// some records. What fails is logged: the next write tries again.
func (sp *Space) liveOn(ctx context.Context, c *Commit, seen []sighting) {
	var owners []string
	look := func(name string) {
		key, ttl := sp.store.expiry.owner(name)
		if ttl == nil || slices.Contains(owners, key) {
			return
		}
		owners = append(owners, key)
		if !slices.ContainsFunc(c.Writes, func(w Write) bool { return w.Key == key }) {
			if err := sp.moveEnd(ctx, key, c.Now, ttl, seen); err != nil && ctx.Err() == nil {
				sp.store.log.Warn("the end of a record was not moved on", "space", sp.name, "key", key, "error", err)
			}
		}
	}
	for i := range c.Events {
		look(c.Events[i].Stream)
	}
	for i := range c.Writes {
		look(c.Writes[i].Key)
	}
}

func (sp *Space) moveEnd(ctx context.Context, key string, now time.Time, ttl func(Record) time.Duration, seen []sighting) error {
	early := func(rec Record) bool {
		return rec.Exists() && !rec.Expires.IsZero() && rec.Expires.Before(now.Add(ttl(rec)))
	}
	var rec Record
	var err error
	if i := slices.IndexFunc(seen, func(s sighting) bool { return s.key == key }); i >= 0 {
		rec = seen[i].record
	} else if rec, err = sp.Get(ctx, key); err != nil {
		return err
	}
	if !early(rec) {
		return nil
	}
	then := sp.store.Space(sp.name)
	then.asOf = &now // as for an expiry: the caller may hold the turn
	_, err = then.Update(WithoutIdempotencyKey(ctx), func(tx *Tx) error {
		rec, err := tx.Get(key)
		if err != nil || !early(rec) {
			return err
		}
		d := ttl(rec)
		tx.write(Write{Key: key, Value: rec.Value, Schema: rec.Schema, Expires: now.Add(d + d/10), Notify: rec.Notify})
		return nil
	})
	return err
}
