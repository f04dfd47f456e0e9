package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/thole-dev/thole/backend/backendtest/model"
	"github.com/thole-dev/thole/journal"
)

// commit commits a batch and records the result.
func (s *schedule) commit(on *instance) error {
	batch, next := s.batch(), s.base.Clone()
	want := make([]journal.Result, len(batch))
	for i, c := range batch {
		var err error
		if want[i], err = next.Commit(c); err != nil {
			return err
		}
	}
	var got []journal.Result
	wasStopped := on.Stopped() != nil
	err := s.try(on, fmt.Sprintf("commit %s", show(batch)), func(ctx context.Context) (err error) {
		got, err = on.Commit(ctx, s.base.Placed(batch))
		return err
	})
	if err == nil && wasStopped {
		return fmt.Errorf("commit after the store stopped: got success")
	}
	if err != nil {
		return s.unknown(next, err)
	}
	for i := range got {
		if err := next.Expect(batch[i].Space, got[i], want[i]); err != nil {
			return fmt.Errorf("commit %d of %s: %w", i, show(batch), err)
		}
	}
	s.commits++
	s.acknowledged(next)
	return nil
}

// purgeOn makes a random purge.
func (s *schedule) purgeOn(on *instance) error {
	name := s.space()
	r := s.base[name]
	if r == nil {
		return nil
	}
	next, p := s.base.Clone(), s.purge(r)
	next.Purge(name, p)
	s.base.Place(name, &p.Before)
	s.base.Place(name, &p.UpTo)
	for i := range p.Events {
		s.base.Place(name, &p.Events[i])
	}
	err := s.try(on, fmt.Sprintf("purge %s %+v", name, p), func(ctx context.Context) error { return on.Purge(ctx, name, p) })
	if err != nil {
		return s.unknown(next, err)
	}
	s.acknowledged(next)
	return nil
}

// acknowledged records that a call succeeded, and that the state is now next. The call
// overwrote what failed calls may have left.
func (s *schedule) acknowledged(next model.World) {
	if s.base.Differs(next) != nil {
		s.pending = nil
	}
	s.base = next
}

// unknown records that a call failed which would have led to next. If the store goes
// on, it must show one state or the other; after power loss it may be the other.
func (s *schedule) unknown(next model.World, err error) error {
	if errors.Is(err, errUnexplained) {
		return err
	}
	s.failed++
	s.pending = append(s.pending, next)
	if errors.Is(err, errPower) {
		return err
	}
	got, err := s.look()
	if err != nil || got == nil {
		return err // nil: the next one to open the file finds out
	}
	before := s.base.Differs(got)
	if before == nil {
		return nil
	}
	if err := next.Differs(got); err != nil {
		return fmt.Errorf("after a failed call: the state is neither that before it (%w) nor that after it (%w)", before, err)
	}
	s.base, s.pending = next, nil
	return nil
}

// look reads everything, without faults, from a store that has not stopped. It returns
// nil if there is no such store.
func (s *schedule) look() (model.World, error) {
	defer s.disk.pause()()
	for _, on := range s.stores {
		if on.Stopped() != nil {
			continue
		}
		got, err := model.Observe(context.Background(), on)
		switch {
		case s.disk.isOff():
			return nil, errPower
		case err != nil && on.Stopped() != nil: // a checkpoint in the background has just failed
			continue
		}
		return got, err
	}
	return nil, nil
}

// read makes a random read and compares the result.
func (s *schedule) read(on *instance) error {
	name := s.space()
	r, q := s.base[name], s.query()
	if r == nil {
		return nil
	}
	var page journal.Page
	err := s.try(on, fmt.Sprintf("read %s %+v", name, q), func(ctx context.Context) (err error) {
		page, err = on.Read(ctx, name, q)
		return err
	})
	if errors.Is(err, errUnexplained) || errors.Is(err, errPower) {
		return err
	}
	if err != nil {
		return nil
	}
	s.reads++
	return r.Answer(q, page)
}

// show returns a short description of commits.
func show(batch []journal.Commit) string {
	var b strings.Builder
	for _, c := range batch {
		size := 0
		for _, e := range c.Events {
			size += len(e.Data)
		}
		for _, w := range c.Writes {
			size += len(w.Value)
		}
		fmt.Fprintf(&b, "[%s %d events %d writes %d checks %d bytes]", c.Space, len(c.Events), len(c.Writes), len(c.Checks), size)
	}
	return b.String()
}
