package thole

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"
)

// Expirer ends what expired: it must remove rec, or make it expire later, in
// one commit of sp. That commit carries the time of the expiry. It may run more
// than once, in several processes.
type Expirer func(ctx context.Context, sp *Space, rec Record) error

// expiry knows the expirers of concepts by the first part of a key.
type expiry struct {
	mu sync.RWMutex
	m  map[string]Expirer
}

// OnExpire sets how expired records whose key begins with kind + "/" end. A
// kind without an expirer has the default: the record and all below it are
// deleted and, if it is a Notify record, the event <kind>.expired with {key,
// value, below} goes to the stream named by the first two parts of its key.
// Setting a kind again replaces its expirer.
func (s *Store) OnExpire(kind string, e Expirer) {
	s.expiry.mu.Lock()
	defer s.expiry.mu.Unlock()
	if s.expiry.m == nil {
		s.expiry.m = make(map[string]Expirer)
	}
	s.expiry.m[kind] = e
}

// Expired is the data of the default event for an expired record.
type Expired struct {
	Key   string                     `json:"key"`
	Value json.RawMessage            `json:"value"`
	Below map[string]json.RawMessage `json:"below,omitempty"` // records under Key + "/", as far as they fit
}

// expire ends the record under key if its time is up.
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
	then := sp.store.Space(sp.name)
	then.asOf = rec.Expires.Add(-time.Microsecond)
	ctx = WithoutIdempotencyKey(ctx)

	kind, _, _ := strings.Cut(key, "/")
	s := sp.store
	s.expiry.mu.RLock()
	end := s.expiry.m[kind]
	s.expiry.mu.RUnlock()
	if end == nil {
		end = expireRecord
	}
	err = end(ctx, then, rec)
	if errors.Is(err, ErrConflict) {
		return nil // someone else ended it, or it lives on
	}
	return err
}

// Bounds of what the default expirer handles in the one commit that ends a
// record: how many records below it are deleted, and how much of them its event
// tells. The others below are deleted right after.
const (
	maxBelow      = 200
	maxBelowBytes = 256 << 10
)

// expireRecord is the default expirer.
func expireRecord(ctx context.Context, sp *Space, rec Record) error {
	c := Commit{
		Checks: []Check{{Key: rec.Key, At: rec.Version}},
		Writes: []Write{{Key: rec.Key}},
	}
	if !rec.Notify {
		_, err := sp.commit(ctx, c)
		return err
	}
	below, err := sp.store.backend.List(ctx, sp.name, ListQuery{Prefix: rec.Key + "/", Limit: maxBelow})
	if err != nil {
		return err
	}
	final := Expired{Key: rec.Key, Value: rec.Value, Below: make(map[string]json.RawMessage)}
	size, room := 0, min(maxBelowBytes, maxNotifyBytes-len(rec.Value))
	for _, r := range below {
		c.Writes = append(c.Writes, Write{Key: r.Key})
		// A key may double in JSON, the punctuation is about 4 bytes.
		if size += 2*len(r.Key) + len(r.Value) + 8; size < room {
			final.Below[r.Key[len(rec.Key)+1:]] = r.Value
		}
	}
	data, err := marshal(final)
	if err != nil {
		return err
	}
	kind, rest, _ := strings.Cut(rec.Key, "/")
	id, _, _ := strings.Cut(rest, "/")
	c.Events = []Event{{Stream: kind + "/" + id, Type: kind + ".expired", Data: data}}
	if _, err := sp.commit(ctx, c); err != nil || len(below) < maxBelow {
		return err
	}
	return sp.DeleteBelow(ctx, rec.Key)
}

// DeleteBelow deletes every record under key + "/", without events, in as many
// commits as it takes: for what is left of something that is gone already.
func (sp *Space) DeleteBelow(ctx context.Context, key string) error {
	for {
		recs, err := sp.List(ctx, ListQuery{Prefix: key + "/", Limit: maxBelow})
		if err != nil || len(recs) == 0 {
			return err
		}
		var c Commit
		for _, r := range recs {
			c.Writes = append(c.Writes, Write{Key: r.Key})
		}
		if _, err := sp.commit(ctx, c); err != nil {
			return err
		}
	}
}

// The lease that the process which sweeps holds in the space global. One that
// dies meanwhile is replaced when its time is up.
const (
	sweeperBase = "sweeper"
	sweeperTTL  = 10 * time.Second
)

// sweepLoop ends expired records every so often. Of all processes on a store
// one sweeps at a time, for as long as it takes; it is elected only when there is
// something to do, so an idle store writes nothing. While sweeping fails it
// waits longer and longer, up to the lease's time.
func (s *Store) sweepLoop(ctx context.Context) {
	wait := s.opts.Sweep
	next := time.NewTimer(wait)
	defer next.Stop()
	holder := NewID("store")
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		err := s.sweepAs(ctx, holder)
		if err == nil || errors.Is(err, ErrConflict) || ctx.Err() != nil {
			wait = s.opts.Sweep
		} else {
			wait = max(s.opts.Sweep, min(2*wait, sweeperTTL))
			s.log.Warn("sweep failed; will try again", "error", err, "in", wait)
		}
		next.Reset(wait)
	}
}

func (s *Store) sweepAs(ctx context.Context, holder string) error {
	due, err := s.due(ctx)
	if err != nil || len(due) == 0 {
		return err
	}
	global := s.Space("global")
	res, err := global.Update(ctx, func(tx *Tx) error { return tx.Acquire(sweeperBase, holder, sweeperTTL) })
	if err != nil {
		return err // ErrConflict: another process sweeps
	}
	fence := LeaseFence(sweeperBase, res)
	elected, stop := context.WithCancelCause(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { stop(global.KeepLease(elected, fence, sweeperTTL)) })
	err = s.Sweep(elected)
	stop(nil)
	keeper.Wait()
	_, end := global.Under(fence).Update(ctx, func(tx *Tx) error {
		tx.Release(sweeperBase)
		return nil
	})
	return errors.Join(err, end)
}

// due lists spaces with something to end. What it reports too early is looked
// at closely, so that a hint that stays true costs no election.
func (s *Store) due(ctx context.Context) ([]string, error) {
	var due []string
	for q := (SpacesQuery{DueBy: s.Now(), Limit: MaxPage}); ; {
		spaces, err := s.backend.Spaces(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, name := range spaces {
			recs, err := s.backend.List(ctx, name, ListQuery{DueBy: q.DueBy, Limit: 1})
			if err != nil {
				return nil, err
			}
			if len(recs) > 0 {
				due = append(due, name)
			}
		}
		if len(spaces) < MaxPage {
			return due, nil
		}
		q.After = spaces[len(spaces)-1]
	}
}

// Sweep ends all expired records now, without an election; the Store does so by
// itself unless Options.Sweep is negative. One record that cannot be ended does
// not keep the others.
func (s *Store) Sweep(ctx context.Context) error {
	spaces, err := s.due(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range spaces {
		sp := s.Space(name)
		for q := (ListQuery{DueBy: s.Now(), Limit: 100}); ; {
			recs, err := s.backend.List(ctx, name, q)
			if err != nil || len(recs) == 0 {
				errs = append(errs, err)
				break
			}
			q.After = recs[len(recs)-1].Key
			for _, r := range recs {
				if err := sp.expire(ctx, r.Key); err != nil {
					errs = append(errs, err)
				}
			}
		}
	}
	return errors.Join(errs...)
}
