package thole

import (
	"context"
	"slices"
	"time"
)

// poll keeps watched spaces in step with writers in other processes: on every hint,
// and every so often without one.
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

// Hints calls wake with the name of each space that changes through this Store
// or that its backend gives a hint about, once the change can be read, until ctx
// ends; then it returns nil. ErrClosed when the Store closes. Hints coalesce; an
// empty name means "check all", which is the first hint: none is missed from then
// on.
func (s *Store) Hints(ctx context.Context, wake func(space string)) error {
	return s.hints.Listen(ctx, s.over, wake)
}

// written is called after each batch, one at a time, before its callers hear of
// it.
func (s *Store) written(batch []Commit, results []Result, err error) {
	if err == nil {
		s.records.Committed(batch, results)
		s.fanout.Committed(batch, results)
		s.hints.Committed(batch, results)
		return
	}
	// Some of it may have happened.
	s.records.Forget(batch)
	for i := range batch {
		s.hinted(batch[i].Space)
	}
}

// hinted passes on that a space may have changed.
func (s *Store) hinted(space string) {
	s.fanout.Hint(space)
	s.hints.Touch(space)
}
