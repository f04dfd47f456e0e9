package thole

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// A beat holds its TTL, so no beat of a clock that agrees with this machine's ends
// later than that from now, give or take maxSkew. One that does was written by a
// clock that is ahead, or this machine's clock is behind: nobody can tell which.
// Such a beat is strange. It is never changed, and its date is not believed: its
// holder counts as dead once the beat stood unchanged for its TTL since this Store
// first saw it, by a clock that nobody sets. A holder that lives renews it in time.
// See decision 0004.
type beats struct {
	mu      sync.Mutex
	strange map[recordName]sight
}

// sight is when a version of a strange beat was first seen.
type sight struct {
	version Position
	since   time.Duration // of clock.steady
	ttl     time.Duration
}

// maxStrange bounds how many strange beats a Store remembers. When it is reached,
// all are forgotten: those leases last up to a TTL longer.
const maxStrange = 10_000

// Alive reports whether the lease under base has a holder that gave a sign of life
// in time, as [Tx.Lease] does within an Update.
func (sp *Space) Alive(ctx context.Context, base string) (bool, error) {
	beat, err := sp.Get(ctx, base+"/beat")
	return err == nil && sp.store.beating(sp.name, beat), err
}

// beating reports whether the holder of a lease is alive, by its beat as it was
// read just now. All who judge a lease ask here.
func (s *Store) beating(space string, beat Record) bool {
	if !beat.Exists() || beat.Pending {
		return beat.Exists()
	}
	at := recordName{space, beat.Key}
	ttl, strange := s.strange(beat)
	now := s.clock.steady()
	s.beats.mu.Lock()
	defer s.beats.mu.Unlock()
	if !strange {
		delete(s.beats.strange, at)
		return true
	}
	seen, known := s.beats.strange[at]
	if known && seen.version == beat.Version {
		return now-seen.since < ttl
	}
	if !known && len(s.beats.strange) >= maxStrange {
		clear(s.beats.strange)
	}
	s.beats.strange[at] = sight{beat.Version, now, ttl}
	return true
}

// strange reports whether a beat promises more than its TTL from now.
func (s *Store) strange(beat Record) (ttl time.Duration, strange bool) {
	var b leaseBeat
	if beat.Expires.IsZero() || json.Unmarshal(beat.Value, &b) != nil || b.TTL <= 0 {
		return 0, false
	}
	ttl = time.Duration(min(b.TTL, MaxLease.Milliseconds())) * time.Millisecond
	return ttl, beat.Expires.After(s.Now().Add(ttl + maxSkew))
}

// silent lists the strange beats that stood for their TTL when last looked at.
func (s *Store) silent() (found []recordName) {
	now := s.clock.steady()
	s.beats.mu.Lock()
	defer s.beats.mu.Unlock()
	for at, seen := range s.beats.strange {
		if now-seen.since >= seen.ttl {
			found = append(found, at)
		}
	}
	return found
}

// endSilent ends the lease behind a strange beat if it is still the same one, so
// that nobody needs to look twice at the lease of a dead holder.
func (sp *Space) endSilent(ctx context.Context, key string) error {
	beat, err := sp.Get(ctx, key)
	if err != nil {
		return err
	}
	if !beat.Exists() {
		sp.store.beats.mu.Lock()
		defer sp.store.beats.mu.Unlock()
		delete(sp.store.beats.strange, recordName{sp.name, key})
		return nil
	}
	if sp.store.beating(sp.name, beat) {
		return nil
	}
	return sp.end(ctx, beat, sp.store.Now())
}
