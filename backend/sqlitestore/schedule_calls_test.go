package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/thole-dev/thole"
)

// commit commits a batch and keeps the books.
func (s *schedule) commit(on *instance) error {
	batch, next := s.batch(), s.base.clone()
	want := make([]thole.Result, len(batch))
	for i, c := range batch {
		var err error
		if want[i], err = next.commit(c); err != nil {
			return err
		}
	}
	var got []thole.Result
	wasStopped := on.stopped
	err := s.try(on, fmt.Sprintf("commit %s", show(batch)), func(ctx context.Context) (err error) {
		got, err = on.Commit(ctx, s.base.placed(batch))
		return err
	})
	if err == nil && wasStopped {
		return fmt.Errorf("commit after a failed sync: got success")
	}
	if err != nil {
		return s.unknown(on, next, err)
	}
	for i := range got {
		if err := next.expect(batch[i].Space, got[i], want[i]); err != nil {
			return fmt.Errorf("commit %d of %s: %w", i, show(batch), err)
		}
	}
	s.commits++
	s.acknowledged(next)
	return nil
}

// expect checks a result, and takes the epoch of a new space from it.
func (w world) expect(space string, got, want thole.Result) error {
	if (got.Conflict == nil) != (want.Conflict == nil) {
		return fmt.Errorf("conflict: got %v, want %v", got.Conflict, want.Conflict)
	}
	if got.Conflict != nil {
		return nil
	}
	r := w[space]
	if r.Epoch == "" {
		r.Epoch = got.Last.Epoch
	}
	w.place(space, &want.First)
	w.place(space, &want.Last)
	if got != want {
		return fmt.Errorf("result: got %+v, want %+v", got, want)
	}
	return nil
}

// purgeOn purges something.
func (s *schedule) purgeOn(on *instance) error {
	name := s.space()
	r := s.base[name]
	if r == nil {
		return nil
	}
	next, p := s.base.clone(), s.purge(r)
	next.purge(name, p)
	s.base.place(name, &p.Before)
	for i := range p.Events {
		s.base.place(name, &p.Events[i])
	}
	err := s.try(on, fmt.Sprintf("purge %s %+v", name, p), func(ctx context.Context) error { return on.Purge(ctx, name, p) })
	if err != nil {
		return s.unknown(on, next, err)
	}
	s.acknowledged(next)
	return nil
}

// acknowledged notes that a call led to next. What it wrote is in the place of
// what failed calls wrote before.
func (s *schedule) acknowledged(next world) {
	if s.base.differs(next) != nil {
		s.pending = nil
	}
	s.base = next
}

// unknown notes that a call failed which would have led to next. The store that
// goes on must show one or the other; what power loss leaves may be the other.
func (s *schedule) unknown(on *instance, next world, err error) error {
	if errors.Is(err, errUnexplained) {
		return err
	}
	s.failed++
	s.pending = append(s.pending, next)
	if errors.Is(err, errPower) {
		return err
	}
	got, err := s.observe(on)
	if err != nil {
		return err
	}
	before := s.base.differs(got)
	if before == nil {
		return nil
	}
	if err := next.differs(got); err != nil {
		return fmt.Errorf("after a failed call: the state is neither that before it (%w) nor that after it (%w)", before, err)
	}
	s.base, s.pending = next, nil
	return nil
}

// observe reads all there is, without faults.
func (s *schedule) observe(on *instance) (world, error) {
	defer s.disk.pause()()
	got, err := observe(context.Background(), on)
	if s.disk.isOff() {
		return nil, errPower
	}
	return got, err
}

// read reads something and compares.
func (s *schedule) read(on *instance) error {
	name := s.space()
	r, q := s.base[name], s.query()
	if r == nil {
		return nil
	}
	var page thole.Page
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
	return r.answer(q, page)
}

// show names commits shortly.
func show(batch []thole.Commit) string {
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
