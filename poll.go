package thole

import (
	"context"
	"slices"
	"time"
)

// poll catches up with the commits of other processes in the watched spaces: on every
// hint, and every Options.Poll.
func (s *Store) poll(ctx context.Context) {
	workers := s.commits.Workers(func(_ int, names []string) []string {
		for part := range slices.Chunk(names, 500) {
			s.fanout.CatchUp(ctx, part)
		}
		return nil
	})
	tick := time.NewTicker(s.opts.Poll)
	defer tick.Stop()
	for {
		var names []string
		select {
		case <-ctx.Done():
			return
		case <-s.fanout.Wake():
			names = s.fanout.Hinted()
		case <-tick.C:
			names = s.fanout.Spaces()
		}
		workers.Do(&s.tasks, names)
	}
}

// Hints calls wake with the name of each space that changes through this Store, or for
// which the backend gives a hint, once the change can be read. It returns nil when ctx
// ends and ErrClosed when the Store closes. Hints may be merged; an empty name means
// "check all". The first hint is "check all", and no change after it is missed.
func (s *Store) Hints(ctx context.Context, wake func(space string)) error {
	return s.hints.Listen(ctx, s.over, wake)
}

// written is called after each batch, before the batch's callers get their results.
// There is one call at a time.
func (s *Store) written(batch []Commit, results []Result, err error) {
	if err == nil {
		s.records.Committed(batch, results)
		s.fanout.Committed(batch, results)
		s.hints.Committed(batch, results)
		return
	}
	// Some of the commits may have been applied.
	s.records.Forget(batch)
	for i := range batch {
		s.hinted(batch[i].Space)
	}
}

// hinted notes that a space may have changed.
func (s *Store) hinted(space string) {
	s.fanout.Hint(space)
	s.hints.Touch(space)
}
