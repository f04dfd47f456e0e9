package thole

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"
)

// This file is for a server through which other Stores use this one, as their
// backend. What they commit was validated by them and carries their time.

// Apply commits each commit of the batch on its own, in order and as it is, and
// returns one Result for each, as [Backend].Commit does; the batch may share a
// write with what others commit. ErrInvalid, ErrTooLarge and ErrClosed mean that
// nothing was applied; after any other error, and when ctx ends, it is unknown
// which commits were. Bytes are copied.
func (s *Store) Apply(ctx context.Context, batch []Commit) ([]Result, error) {
	all := make([]*pending, len(batch))
	for i := range batch {
		c := batch[i].clone()
		size, err := c.checkRaw()
		if err != nil {
			return nil, fmt.Errorf("commit %d of %d to %.80q: %w", i+1, len(batch), c.Space, err)
		}
		all[i] = &pending{ctx: ctx, commit: c, size: size, done: make(chan struct{})}
	}
	for _, p := range all {
		s.clock.observe(p.commit.Now)
	}
	return s.batch.commitAll(ctx, all)
}

// Load imports a part of a space, as [Backend].Load does.
func (s *Store) Load(ctx context.Context, space string, c Chunk) error {
	if err := checkSpaceName(space); err != nil {
		return err
	}
	for i := range c.Events {
		if err := c.Events[i].checkRaw(); err != nil {
			return err
		}
	}
	for i := range c.Records {
		r := &c.Records[i]
		if err := checkRawName("key", r.Key); err != nil {
			return err
		}
		if err := CheckJSON("value of "+r.Key, r.Value); err != nil {
			return err
		}
	}
	if err := s.backend.Load(ctx, space, c); err != nil {
		return err
	}
	if c.Done {
		s.hinted(space)
	}
	return nil
}

// checkRaw reports what would hurt this Store or who reads from it, and returns
// the commit's size.
func (c *Commit) checkRaw() (int, error) {
	if err := checkSpaceName(c.Space); err != nil {
		return 0, err
	}
	if len(c.Events) == 0 && len(c.Writes) == 0 {
		return 0, invalidf("a commit needs an event or a write")
	}
	if n := len(c.Checks) + len(c.Events) + len(c.Writes); n > MaxCommitItems {
		return 0, fmt.Errorf("%w: commit has %d items, the limit is %d", ErrTooLarge, n, MaxCommitItems)
	}
	if err := checkTexts(c.Actor, c.Cause); err != nil {
		return 0, err
	}
	size := 0
	for _, k := range c.Checks {
		if (k.Key == "") == (k.Stream == "") {
			return 0, invalidf("a check names either a stream or a key")
		}
		if err := checkRawName("check", k.Key+k.Stream); err != nil {
			return 0, err
		}
		size += len(k.Key) + len(k.Stream)
	}
	for i := range c.Events {
		if err := c.Events[i].checkRaw(); err != nil {
			return 0, err
		}
		size += c.Events[i].size()
	}
	for i := range c.Writes {
		w := &c.Writes[i]
		if err := checkRawName("key", w.Key); err != nil {
			return 0, err
		}
		if slices.ContainsFunc(c.Writes[:i], func(x Write) bool { return x.Key == w.Key }) {
			return 0, invalidf("key %q is written twice in one commit", w.Key)
		}
		if w.Value != nil {
			if err := CheckJSON("value of "+w.Key, w.Value); err != nil {
				return 0, err
			}
		}
		size += len(w.Key) + len(w.Value)
	}
	if size > MaxCommitBytes {
		return 0, fmt.Errorf("%w: commit has %d bytes, the limit is %d", ErrTooLarge, size, MaxCommitBytes)
	}
	return size, nil
}

func (e *Event) checkRaw() error {
	for _, name := range []string{e.Stream, e.Type} {
		if err := checkRawName("name", name); err != nil {
			return err
		}
	}
	if len(e.Refs) > MaxCommitItems {
		return fmt.Errorf("%w: event %s has %d refs, the limit is %d", ErrTooLarge, e.Type, len(e.Refs), MaxCommitItems)
	}
	if err := checkTexts(append(e.Refs[:len(e.Refs):len(e.Refs)], e.Actor, e.Cause, e.Subject)...); err != nil {
		return err
	}
	if e.Data == nil {
		return nil
	}
	return CheckJSON("event "+e.Type, e.Data)
}

func checkRawName(what, name string) error {
	if name == "" || len(name) > MaxNameBytes || !utf8.ValidString(name) {
		return invalidf("%s %.40q is not UTF-8 of 1 to %d bytes", what, name, MaxNameBytes)
	}
	return nil
}

func checkTexts(texts ...string) error {
	for _, text := range texts {
		if len(text) > MaxNameBytes || !utf8.ValidString(text) {
			return invalidf("%.40q is not UTF-8 of at most %d bytes", text, MaxNameBytes)
		}
	}
	return nil
}
