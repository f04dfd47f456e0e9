package filestore

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/journal"
	"github.com/tidwall/btree"
)

// space is what memory holds of a space: the places of its events and its records
// without their values, about 30 bytes per event and 200 per record. The Store's mu
// guards it. The elements of events and streams never change; new ones are appended.
type space struct {
	name     string
	dir      string
	era      int // of its note when it was read
	head     journal.Head
	segments []segment
	tail     string  // CRC of the last line
	events   []entry // by seq
	streams  map[string][]uint32
	records  btree.Map[string, *record]
	expires  *btree.BTreeG[expiry]
	dirty    map[string]behind
	flushed  uint64 // the files of records hold the commits up to here
	base     uint64 // the journal may lack versions up to here
	forked   bool   // the next commit begins an epoch
}

// segment is a file of a journal.
type segment struct {
	first uint64 // the first seq it may hold; its name
	size  int64  // bytes of good lines
}

// entry is the place of an event in the journal.
type entry struct {
	seq     uint64
	segment uint32 // index
	offset  uint32 // of its line
	size    uint32 // of its line, without the newline
}

// record is a record and the stamp of its file. It is immutable: a write makes another
// one.
type record struct {
	journal.Record // Value is nil if the file holds it
	file           stamp
}

// behind is a record whose file does not hold the newest write or delete yet.
type behind struct {
	seq  uint64 // of that commit
	file stamp  // of the file that is there now
}

type expiry struct {
	at  time.Time
	key string
}

func newSpace(name, dir string) *space {
	return &space{
		name: name, dir: dir, head: journal.Head{Space: name},
		streams: map[string][]uint32{}, dirty: map[string]behind{},
		expires: btree.NewBTreeGOptions(func(a, b expiry) bool {
			return cmp.Or(a.at.Compare(b.at), strings.Compare(a.key, b.key)) < 0
		}, btree.Options{NoLocks: true}),
	}
}

// version returns the position of the last kept event of a stream, zero if it has none.
func (sp *space) version(stream string) journal.Position {
	refs := sp.streams[stream]
	if len(refs) == 0 {
		return journal.Position{}
	}
	return sp.position(sp.events[refs[len(refs)-1]].seq)
}

// position returns the position of a seq.
func (sp *space) position(seq uint64) journal.Position {
	epochs := sp.head.Epochs
	for i := len(epochs) - 1; i > 0; i-- {
		if epochs[i].First <= seq {
			return journal.Position{Epoch: epochs[i].Name, Seq: seq}
		}
	}
	return journal.Position{Epoch: epochs[0].Name, Seq: seq}
}

// record returns the record of a key, with its value only if memory holds it, or the
// zero record.
func (sp *space) record(key string) journal.Record {
	if r, ok := sp.records.Get(key); ok {
		return r.Record
	}
	return journal.Record{}
}

// advance moves the head over a commit.
func (sp *space) advance(l *line) {
	h := &sp.head
	if h.Oldest.IsZero() {
		h.Oldest = journal.Position{Epoch: l.At.Epoch, Seq: l.first()}
	}
	if n := len(h.Epochs); n == 0 || h.Epochs[n-1].Name != l.At.Epoch {
		h.Epochs = append(slices.Clip(h.Epochs), journal.Epoch{Name: l.At.Epoch, First: l.first(), Adopted: l.Adopted})
	}
	h.Last, h.Epochs[len(h.Epochs)-1].Last = l.At, l.At.Seq
}

// index adds the events of a line in the newest segment.
func (sp *space) index(l *line, offset, size int64) {
	for i := range l.Events {
		e := &l.Events[i]
		stream := e.Stream
		refs, known := sp.streams[stream]
		if !known {
			stream = strings.Clone(stream)
		}
		sp.streams[stream] = append(refs, uint32(len(sp.events)))
		sp.events = append(sp.events, entry{e.Seq, uint32(len(sp.segments) - 1), uint32(offset), uint32(size)})
	}
}

// write applies the writes of a commit to the records and marks their files as behind.
// It returns by how many bytes the dirty bytes change.
func (sp *space) write(l *line) int64 {
	added := int64(0)
	for i := range l.Writes {
		w := &l.Writes[i]
		added += sp.drop(w.Key, l.At.Seq)
		if w.Deleted {
			continue
		}
		r := &record{Record: journal.Record{
			Key: w.Key, Value: w.Value, Schema: w.Schema, Version: l.At,
			Updated: l.Time, Expires: w.Expires, Notify: w.Notify,
		}}
		sp.put(r)
		added += dirtyBytes(r)
	}
	return added
}

// drop removes a record and marks its file as behind. It returns by how many bytes the
// dirty bytes change.
func (sp *space) drop(key string, seq uint64) (added int64) {
	r, ok := sp.records.Delete(key)
	if ok && !r.Expires.IsZero() {
		sp.expires.Delete(expiry{r.Expires, key})
	}
	b, was := sp.dirty[key]
	switch {
	case was:
		added = -dirtyBytes(r)
	case ok:
		b.file = r.file
	}
	b.seq = seq
	sp.dirty[key] = b
	return added
}

// put adds a record; its key must not have one.
func (sp *space) put(r *record) {
	sp.records.Set(r.Key, r)
	if !r.Expires.IsZero() {
		sp.expires.Set(expiry{r.Expires, r.Key})
	}
}

// dirtyBytes returns the bytes of memory that a record takes while its file is behind.
func dirtyBytes(r *record) int64 {
	if r == nil || r.Value == nil {
		return 0
	}
	return int64(len(r.Value) + len(r.Key) + 128)
}

// due returns when the first record expires, zero if none does.
func (sp *space) due() time.Time {
	first, _ := sp.expires.Min()
	return first.at
}

// note returns the note that describes the space.
func (sp *space) note() note {
	n := note{Space: sp.name, Tail: sp.tail, Last: sp.head.Last, Flushed: sp.flushed, Due: sp.due(), Era: sp.era}
	if i := len(sp.segments) - 1; i >= 0 {
		n.Segment, n.Size = sp.segments[i].first, sp.segments[i].size
	}
	return n
}

// at reports whether memory holds the journal up to the end that the note names.
func (sp *space) at(n note) bool {
	i := len(sp.segments) - 1
	return i >= 0 && sp.segments[i] == segment{n.Segment, n.Size} || i < 0 && n.Segment == 0
}

// forget drops a space from memory, unless another one took its place there. The
// caller holds mu.
func (s *Store) forget(sp *space) {
	if s.spaces[sp.name] != sp {
		return
	}
	delete(s.spaces, sp.name)
	for key := range sp.dirty {
		r, _ := sp.records.Get(key)
		s.dirty -= dirtyBytes(r)
	}
}

// flushedBy records that another process brought the files of records up to date with
// the commits up to seq. The caller holds mu.
func (s *Store) flushedBy(sp *space, seq uint64) {
	sp.flushed = seq
	for key, b := range sp.dirty {
		if b.seq <= seq {
			s.markClean(sp, key, unknown)
		}
	}
}

// markClean records that the file of a record is up to date and drops the value from
// memory. The caller holds mu.
func (s *Store) markClean(sp *space, key string, file stamp) {
	delete(sp.dirty, key)
	r, ok := sp.records.Get(key)
	if !ok {
		return
	}
	s.dirty -= dirtyBytes(r)
	clean := *r
	clean.Value, clean.file = nil, file
	sp.records.Set(key, &clean)
}

func cloneRecord(r journal.Record) journal.Record {
	r.Value = bytes.Clone(r.Value)
	return r
}

func cloneHead(h journal.Head) journal.Head {
	h.Epochs = slices.Clone(h.Epochs)
	return h
}
