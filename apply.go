package thole

import (
	"context"
	"fmt"

	"github.com/thole-dev/thole/journal"
)

// This file is for a server through which other Stores use this one as their backend.
// Those Stores have validated their commits and set the time.

// Apply applies each commit of the batch independently, in order and unchanged, and
// returns one Result for each, like Commit of journal.Backend. If a commit is
// malformed, cannot be applied by its space, or its write fails, its Result has the
// Err; after a failed write it is unknown whether the commit was applied. If Apply
// itself returns ErrInvalid or ErrTooLarge (all commits are malformed) or ErrClosed,
// nothing was applied. After any other error, and when ctx ends, it is unknown which
// commits were applied. Bytes are copied. The batch may be written together with the
// commits of others.
func (s *Store) Apply(ctx context.Context, batch []Commit) ([]Result, error) {
	results := make([]Result, len(batch))
	commits, sizes := make([]Commit, 0, len(batch)), make([]int, 0, len(batch))
	for i := range batch {
		c := batch[i].Clone()
		size, err := checkRawCommit(&c)
		if err != nil {
			results[i].Err = fmt.Errorf("commit to %.80q: %w", c.Space, err)
			continue
		}
		commits, sizes = append(commits, c), append(sizes, size)
	}
	if len(commits) == 0 && len(batch) > 0 {
		return nil, results[0].Err
	}
	for i := range commits {
		s.observed(commits[i].Now, commits[i].Space, "commit")
	}
	applied, err := s.commits.CommitAll(ctx, commits, sizes)
	if err != nil {
		return nil, err
	}
	for i := range results {
		if results[i].Err == nil {
			results[i], applied = applied[0], applied[1:]
		}
	}
	return results, nil
}

// Purge removes what p names, like Purge of journal.Backend, also from this Store's
// memory. The caller must notify other Stores, as [Space.Purge] does.
func (s *Store) Purge(ctx context.Context, space string, p Purge) error {
	if err := s.Space(space).err; err != nil {
		return err
	}
	err := s.backend.Purge(ctx, space, p)
	// Also after an error: the backend may have removed something before it failed.
	s.records.DropSpace(space)
	s.projections.DropSpace(space)
	s.fanout.Reset(space)
	s.hints.Touch(space)
	return err
}

// Load imports a part of a space, like Load of journal.Backend. ErrInvalid and
// ErrTooLarge mean that the chunk is malformed and that nothing of it was loaded.
func (s *Store) Load(ctx context.Context, space string, c journal.Chunk) error {
	if err := journal.CheckAnySpaceName(space); err != nil {
		return err
	}
	if err := checkChunk(&c); err != nil {
		return fmt.Errorf("load %s: %w", space, err)
	}
	if err := s.backend.Load(ctx, space, c); err != nil {
		return err
	}
	if c.Done {
		s.hinted(space)
	}
	return nil
}

// checkRawCommit is checkCommit for a commit of another Store, which has set its space
// and time. It changes no event and no value.
func checkRawCommit(c *Commit) (int, error) {
	if err := journal.CheckAnySpaceName(c.Space); err != nil {
		return 0, err
	}
	if err := checkTime("the time of a commit", c.Now); err != nil {
		return 0, err
	}
	return checkCommitWith(c, checkRawEvent, checkRawWrite)
}

// checkChunk validates a chunk. It allows what earlier versions stored: data with large
// numbers, and missing times.
func checkChunk(c *journal.Chunk) error {
	if err := c.Validate(); err != nil {
		return err
	}
	for i := range c.Events {
		e := &c.Events[i]
		if err := checkEventNames(e); err != nil {
			return err
		}
		if err := checkAnyTime("the time of event "+e.Position.String(), e.Time); err != nil {
			return err
		}
		for _, name := range []string{e.Actor, e.Cause} {
			if err := journal.CheckOptionalName("name", name); err != nil {
				return err
			}
		}
		if e.Data == nil {
			continue
		}
		if err := journal.CheckStoredJSON("event", e.Type, e.Data, journal.MaxEventDepth); err != nil {
			return err
		}
	}
	keys := make(map[string]struct{}, len(c.Records))
	for i := range c.Records {
		r := &c.Records[i]
		if err := journal.CheckName("key", r.Key); err != nil {
			return err
		}
		if _, twice := keys[r.Key]; twice {
			return invalidf("key %q is in one chunk twice", r.Key)
		}
		keys[r.Key] = struct{}{}
		if err := checkAnyTime("the time of "+r.Key, r.Updated); err != nil {
			return err
		}
		if err := checkExpiry(r.Key, r.Expires); err != nil {
			return err
		}
		if err := journal.CheckStoredJSON("value of", r.Key, r.Value, depthUnder(r.Key)); err != nil {
			return err
		}
	}
	return nil
}
