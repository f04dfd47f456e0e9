package memstore

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/journal"
	"github.com/tidwall/btree"
)

// space is the state of one space. Its Store's lock guards it.
type space struct {
	head    journal.Head
	events  []*journal.Event            // by seq
	streams map[string][]*journal.Event // the same events by stream; none is empty
	records btree.Map[string, journal.Record]
	expires *btree.BTreeG[expiry] // the records with an expiry, soonest first
}

type expiry struct {
	at  time.Time
	key string
}

func newSpace(head journal.Head) *space {
	return &space{
		head:    head,
		streams: map[string][]*journal.Event{},
		expires: btree.NewBTreeGOptions(func(a, b expiry) bool {
			return cmp.Or(a.at.Compare(b.at), strings.Compare(a.key, b.key)) < 0
		}, btree.Options{NoLocks: true}),
	}
}

// version returns the position of the stream's last kept event, zero if it has none.
func (sp *space) version(stream string) journal.Position {
	if events := sp.streams[stream]; len(events) > 0 {
		return events[len(events)-1].Position
	}
	return journal.Position{}
}

func (sp *space) record(key string) journal.Record {
	r, _ := sp.records.Get(key)
	return r
}

// apply commits c, whose checks have passed.
func (sp *space) apply(c *journal.Commit) (journal.Result, error) {
	result, err := sp.head.Advance(c, journal.MaxSeq)
	if err != nil {
		return result, err
	}
	for i := range c.Events {
		sp.append(c.Event(i, result))
	}
	for i := range c.Writes {
		if r := c.Record(i, result); r.Exists() {
			sp.put(r)
		} else {
			sp.drop(r.Key)
		}
	}
	return result, nil
}

// append adds a copy of e at the end of the journal.
func (sp *space) append(e journal.Event) {
	e = cloneEvent(e)
	e.Time = micro(e.Time)
	sp.events = append(sp.events, &e)
	sp.streams[e.Stream] = append(sp.streams[e.Stream], &e)
}

// put sets a copy of r.
func (sp *space) put(r journal.Record) {
	r = cloneRecord(r)
	r.Updated, r.Expires = micro(r.Updated), micro(r.Expires)
	if old, _ := sp.records.Set(r.Key, r); !old.Expires.IsZero() {
		sp.expires.Delete(expiry{old.Expires, r.Key})
	}
	if !r.Expires.IsZero() {
		sp.expires.Set(expiry{r.Expires, r.Key})
	}
}

func (sp *space) drop(key string) {
	if r, ok := sp.records.Delete(key); ok && !r.Expires.IsZero() {
		sp.expires.Delete(expiry{r.Expires, key})
	}
}

func (sp *space) due(by time.Time) bool {
	first, ok := sp.expires.Min()
	return ok && !first.at.After(by)
}

func (sp *space) list(q journal.ListQuery) []journal.Record {
	limit := journal.PageLimit(q.Limit)
	var page []journal.Record
	sp.records.Ascend(max(q.Prefix, q.After), func(key string, r journal.Record) bool {
		if !strings.HasPrefix(key, q.Prefix) {
			return false
		}
		if q.Match(r) {
			page = append(page, cloneRecord(r))
		}
		return len(page) < limit
	})
	return page
}

// maxScan is the most events that are read for one page, so that a filter that rarely
// matches does not hold the lock for long.
const maxScan = 8 * journal.MaxPage

func (sp *space) read(q journal.ReadQuery) journal.Page {
	events := sp.events
	if q.Stream != "" {
		events = sp.streams[q.Stream]
	}
	from, to := 0, len(events)
	if !q.After.IsZero() {
		from = seek(events, q.After.Seq+1)
	}
	if !q.Before.IsZero() {
		to = max(from, seekPosition(events, q.Before))
	}
	events = events[from:to]

	limit := journal.PageLimit(q.Limit)
	var page journal.Page
	for i := range events {
		e := events[i]
		if q.Backward {
			e = events[len(events)-1-i]
		}
		if q.Match(*e) {
			page.Events = append(page.Events, cloneEvent(*e))
		}
		if i+1 < len(events) && (len(page.Events) == limit || i+1 == maxScan) {
			page.Next = e.Position
			break
		}
	}
	return page
}

// seek returns the index of the first event with at least that seq.
func seek(events []*journal.Event, seq uint64) int {
	i, _ := slices.BinarySearchFunc(events, seq, func(e *journal.Event, seq uint64) int {
		return cmp.Compare(e.Position.Seq, seq)
	})
	return i
}

// seekPosition returns the index of the first event that is not before p.
func seekPosition(events []*journal.Event, p journal.Position) int {
	i, _ := slices.BinarySearchFunc(events, p, func(e *journal.Event, p journal.Position) int {
		return e.Position.Compare(p)
	})
	return i
}

// micro returns t as it is stored: in UTC, cut to microseconds.
func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

func cloneEvent(e journal.Event) journal.Event {
	e.Refs, e.Data = slices.Clone(e.Refs), slices.Clone(e.Data)
	return e
}

func cloneRecord(r journal.Record) journal.Record {
	r.Value = slices.Clone(r.Value)
	return r
}

func cloneHead(h journal.Head) journal.Head {
	h.Epochs = slices.Clone(h.Epochs)
	return h
}
