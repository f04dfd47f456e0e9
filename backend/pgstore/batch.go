package pgstore

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/thole-dev/thole/journal"
)

// batch is a batch of commits as arguments of the function thole.commit_1, which
// documents them.
type batch struct {
	spaces, epochs []string

	upto segments

	space  []int32
	now    []time.Time
	events []int32

	checks checkColumns
	facts  eventColumns
	writes writeColumns
}

// segments holds, for each segment, the number of its last commit, check, event and
// write, and whether it deletes records.
type segments struct {
	commit, check, event, write []int32
	deletes                     []bool
}

type checkColumns struct {
	commit             []int32
	stream, key, epoch []string
	seq                []int64
}

type eventColumns struct {
	commit, n                          []int32
	stream, typ, actor, subject, cause []string
	schema                             []int64
	refs, data                         [][]byte
}

type writeColumns struct {
	commit  []int32
	key     []string
	value   [][]byte
	schema  []int64
	expires []*time.Time
	notify  []bool
}

// newBatch converts commits to arguments. It returns ErrInvalid for a name that
// PostgreSQL cannot store.
func newBatch(commits []journal.Commit) (*batch, error) {
	b := &batch{}
	for i := range commits {
		b.spaces = append(b.spaces, commits[i].Space)
	}
	slices.Sort(b.spaces)
	b.spaces = slices.Compact(b.spaces)
	for range b.spaces {
		b.epochs = append(b.epochs, journal.NewEpoch(1))
	}
	seg := newSegment()
	for i := range commits {
		if !seg.admits(&commits[i]) {
			b.cut(seg)
			seg = newSegment()
		}
		seg.add(&commits[i])
		if err := b.add(&commits[i]); err != nil {
			return nil, err
		}
	}
	b.cut(seg)
	return b, nil
}

func (b *batch) add(c *journal.Commit) error {
	if err := checkNames(c); err != nil {
		return err
	}
	at, _ := slices.BinarySearch(b.spaces, c.Space)
	b.space = append(b.space, int32(at+1))
	b.now = append(b.now, c.Now)
	b.events = append(b.events, int32(len(c.Events)))
	n := int32(len(b.space))
	for i := range c.Checks {
		b.checks.add(n, &c.Checks[i])
	}
	for i := range c.Events {
		e := &c.Events[i]
		if err := b.facts.add(n, int32(i), e, c.Actor, c.Cause); err != nil {
			return err
		}
	}
	for i := range c.Writes {
		b.writes.add(n, &c.Writes[i])
	}
	return nil
}

// checkNames returns ErrInvalid if a name is not UTF-8 or holds a zero byte.
func checkNames(c *journal.Commit) error {
	names := []string{c.Space, c.Actor, c.Cause}
	for i := range c.Checks {
		names = append(names, c.Checks[i].Stream, c.Checks[i].Key)
	}
	for i := range c.Events {
		e := &c.Events[i]
		names = append(append(names, e.Stream, e.Type, e.Subject), e.Refs...)
	}
	for i := range c.Writes {
		names = append(names, c.Writes[i].Key)
	}
	for _, name := range names {
		if !utf8.ValidString(name) || strings.Contains(name, "\x00") {
			return fmt.Errorf("%w: the name %q is not UTF-8 or holds a zero byte", journal.ErrInvalid, name)
		}
	}
	return nil
}

func (k *checkColumns) add(commit int32, c *journal.Check) {
	k.commit = append(k.commit, commit)
	k.stream, k.key = append(k.stream, c.Stream), append(k.key, c.Key)
	k.epoch, k.seq = append(k.epoch, c.At.Epoch), append(k.seq, int64(c.At.Seq))
}

func (f *eventColumns) add(commit, n int32, e *journal.Event, actor, cause string) error {
	refs, err := encodeRefs(e.Refs)
	if err != nil {
		return err
	}
	f.commit, f.n, f.schema = append(f.commit, commit), append(f.n, n), append(f.schema, int64(e.Schema))
	f.stream, f.typ = append(f.stream, e.Stream), append(f.typ, e.Type)
	f.actor, f.subject, f.cause = append(f.actor, actor), append(f.subject, e.Subject), append(f.cause, cause)
	f.refs, f.data = append(f.refs, refs), append(f.data, e.Data)
	return nil
}

func (w *writeColumns) add(commit int32, r *journal.Write) {
	w.commit, w.schema = append(w.commit, commit), append(w.schema, int64(r.Schema))
	w.key, w.value = append(w.key, r.Key), append(w.value, r.Value)
	w.expires, w.notify = append(w.expires, optional(r.Expires)), append(w.notify, r.Notify)
}

// cut ends a segment after what was last added.
func (b *batch) cut(seg *segment) {
	b.upto.commit = append(b.upto.commit, int32(len(b.space)))
	b.upto.check = append(b.upto.check, int32(len(b.checks.seq)))
	b.upto.event = append(b.upto.event, int32(len(b.facts.n)))
	b.upto.write = append(b.upto.write, int32(len(b.writes.key)))
	b.upto.deletes = append(b.upto.deletes, seg.deletes)
}

func (b *batch) args() []any {
	k, f, w := &b.checks, &b.facts, &b.writes
	return []any{
		b.spaces, b.epochs,
		b.upto.commit, b.upto.check, b.upto.event, b.upto.write, b.upto.deletes,
		b.space, b.now, b.events,
		k.commit, k.stream, k.key, k.epoch, k.seq,
		f.commit, f.n, f.stream, f.typ, some(f.schema), some(f.actor), some(f.subject), some(f.cause), someDocuments(f.refs), documents(f.data),
		w.commit, w.key, documents(w.value), some(w.schema), some(w.expires), some(w.notify),
	}
}

// documents is an array of JSON texts; a nil element is NULL.
type documents = pgtype.FlatArray[[]byte]

func someDocuments(all [][]byte) documents {
	if slices.ContainsFunc(all, func(d []byte) bool { return d != nil }) {
		return all
	}
	return nil
}

// some returns nil, which is NULL, if all elements are zero, so that the server need
// not examine each.
func some[T comparable](all []T) []T {
	var zero T
	if slices.ContainsFunc(all, func(v T) bool { return v != zero }) {
		return all
	}
	return nil
}

// segment is a run of commits that can be applied as a set, because none of them reads
// what an earlier one changes. Appending to a stream changes it; writing a record
// changes it and also reads it; a check reads.
type segment struct {
	changed map[name]struct{}
	deletes bool
}

// name is a stream or a key of a space.
type name struct {
	space, name string
	stream      bool
}

func newSegment() *segment { return &segment{changed: map[name]struct{}{}} }

func (s *segment) changes(space, key, stream string) bool {
	_, ok := s.changed[name{space, key + stream, key == ""}]
	return ok
}

func (s *segment) admits(c *journal.Commit) bool {
	for i := range c.Checks {
		if k := &c.Checks[i]; s.changes(c.Space, k.Key, k.Stream) {
			return false
		}
	}
	for i := range c.Writes {
		if s.changes(c.Space, c.Writes[i].Key, "") {
			return false
		}
	}
	return true
}

func (s *segment) add(c *journal.Commit) {
	for i := range c.Events {
		s.changed[name{c.Space, c.Events[i].Stream, true}] = struct{}{}
	}
	for i := range c.Writes {
		s.changed[name{c.Space, c.Writes[i].Key, false}] = struct{}{}
		s.deletes = s.deletes || c.Writes[i].Value == nil
	}
}
