package thole

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// A beat contains its TTL. If the writer's clock agrees with this machine's, a beat
// expires at most its TTL (plus maxSkew) from now. If it expires later, either the
// writer's clock is ahead or this machine's is behind; nothing says which. Such a beat
// is called skewed. The Store does not change it and ignores its expiry: the holder counts
// as dead when the beat has not changed for its TTL since this Store first saw it,
// measured by the monotonic clock. A live holder renews its beat within that time. See
// decision 0004.
type beats struct {
	mu     sync.Mutex
	skewed map[recordName]seenBeat
}

// seenBeat is when a version of a skewed beat was first seen.
type seenBeat struct {
	version Position
	since   time.Duration // by clock.steady
	ttl     time.Duration
}

// maxSkewed bounds the number of skewed beats that a Store remembers. When it is
// reached, all are forgotten, and those leases last up to a TTL longer.
const maxSkewed = 10_000

// Alive reports whether the holder of the lease under base has renewed it in time.
// Within an Update use [Tx.Lease].
func (sp *Space) Alive(ctx context.Context, base string) (bool, error) {
	beat, err := sp.Get(ctx, base+"/beat")
	return err == nil && sp.store.beating(sp.name, beat), err
}

// beating reports whether the holder of a lease is alive, given its beat as just read.
// Everything that judges a lease calls it.
func (s *Store) beating(space string, beat Record) bool {
	if !beat.Exists() || beat.Pending {
		return beat.Exists()
	}
	at := recordName{space, beat.Key}
	ttl, skewed := s.checkSkew(beat)
	now := s.clock.steady()
	s.beats.mu.Lock()
	defer s.beats.mu.Unlock()
	if !skewed {
		delete(s.beats.skewed, at)
		return true
	}
	seen, known := s.beats.skewed[at]
	if known && seen.version == beat.Version {
		return now-seen.since < ttl
	}
	if !known && len(s.beats.skewed) >= maxSkewed {
		clear(s.beats.skewed)
	}
	s.beats.skewed[at] = seenBeat{beat.Version, now, ttl}
	return true
}

// checkSkew returns a beat's TTL and whether the beat expires later than that from now.
func (s *Store) checkSkew(beat Record) (ttl time.Duration, skewed bool) {
	var b leaseBeat
	if beat.Expires.IsZero() || json.Unmarshal(beat.Value, &b) != nil || b.TTL <= 0 {
		return 0, false
	}
	ttl = time.Duration(min(b.TTL, MaxLease.Milliseconds())) * time.Millisecond
	return ttl, beat.Expires.After(s.Now().Add(ttl + maxSkew))
}

// stalled lists the skewed beats that are not known to have changed for their TTL.
func (s *Store) stalled() (found []recordName) {
	now := s.clock.steady()
	s.beats.mu.Lock()
	defer s.beats.mu.Unlock()
	for at, seen := range s.beats.skewed {
		if now-seen.since >= seen.ttl {
			found = append(found, at)
		}
	}
	return found
}

// endStalled ends the lease of a skewed beat if the beat has not changed for its TTL,
// so that nobody has to wait for the lease of a dead holder.
func (sp *Space) endStalled(ctx context.Context, key string) error {
	beat, err := sp.Get(ctx, key)
	if err != nil {
		return err
	}
	if !beat.Exists() {
		sp.store.beats.mu.Lock()
		defer sp.store.beats.mu.Unlock()
		delete(sp.store.beats.skewed, recordName{sp.name, key})
		return nil
	}
	if sp.store.beating(sp.name, beat) {
		return nil
	}
	return sp.end(ctx, beat, sp.store.Now())
}
