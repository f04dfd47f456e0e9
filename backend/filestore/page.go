package filestore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/thole-dev/thole/journal"
)

// pageReader reads a page of events. It chooses the candidates while the space cannot
// change, and reads their lines afterwards.
type pageReader struct {
	store *Store
	q     journal.ReadQuery
	sp    *space

	events   []entry  // of the whole space
	refs     []uint32 // of the stream, if the query names one
	from, to int      // in refs or events
	segments []segment
	epochs   []journal.Epoch

	line   *line // the last one that was read, since events share lines
	at     entry
	window []byte // a part of a segment that was read ahead
	begin  entry  // where the window begins
}

// choose determines the entries that can match the query. The caller holds mu.
func (p *pageReader) choose(sp *space) {
	q := p.q
	p.sp, p.events, p.segments = sp, sp.events, sp.segments
	p.epochs = slices.Clone(sp.head.Epochs)
	p.to = len(p.events)
	if q.Stream != "" {
		p.refs = sp.streams[q.Stream]
		p.to = len(p.refs)
	}
	if !q.After.IsZero() {
		p.from = p.search(func(at journal.Position) int { return cmp.Compare(at.Seq, q.After.Seq+1) })
	}
	if !q.Before.IsZero() {
		p.to = max(p.from, p.search(func(at journal.Position) int { return at.Compare(q.Before) }))
	}
}

// search returns the index of the first event for which compare is not negative.
func (p *pageReader) search(compare func(journal.Position) int) int {
	low, high := 0, p.to
	for low < high {
		mid := (low + high) / 2
		if compare(p.sp.position(p.entry(mid).seq)) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

func (p *pageReader) entry(i int) entry {
	if p.q.Stream != "" {
		i = int(p.refs[i])
	}
	return p.events[i]
}

// read reads the page.
func (p *pageReader) read(ctx context.Context) (journal.Page, error) {
	limit := journal.PageLimit(p.q.Limit)
	var page journal.Page
	count := p.to - p.from
	for i := range count {
		at := p.entry(p.from + i)
		if p.q.Backward {
			at = p.entry(p.to - 1 - i)
		}
		if i%64 == 0 && ctx.Err() != nil {
			return page, context.Cause(ctx)
		}
		e, err := p.event(at)
		if err != nil {
			return page, err
		}
		if p.q.Match(e) {
			page.Events = append(page.Events, e)
		}
		if i+1 < count && (len(page.Events) == limit || i+1 == maxScan) {
			page.Next = e.Position
			break
		}
	}
	return page, nil
}

// event reads the event at an entry.
func (p *pageReader) event(at entry) (journal.Event, error) {
	if p.line == nil || p.at.segment != at.segment || p.at.offset != at.offset {
		l, err := p.readLine(at)
		if err != nil {
			return journal.Event{}, err
		}
		p.line, p.at = l, at
	}
	for i := range p.line.Events {
		if p.line.Events[i].Seq == at.seq {
			return p.line.event(i, p.epoch(at.seq)), nil
		}
	}
	return journal.Event{}, p.stale(at)
}

func (p *pageReader) epoch(seq uint64) string {
	i := len(p.epochs) - 1
	for i > 0 && p.epochs[i].First > seq {
		i--
	}
	return p.epochs[i].Name
}

// readAhead is how many bytes are read at once when the following lines are needed too.
const readAhead = 128 << 10

func (p *pageReader) readLine(at entry) (*line, error) {
	text, err := p.text(at)
	if err != nil {
		return nil, err
	}
	l, err := parseLine(text)
	if err != nil {
		return nil, p.stale(at)
	}
	return l, nil
}

func (p *pageReader) text(at entry) ([]byte, error) {
	if off := int(at.offset) - int(p.begin.offset); at.segment == p.begin.segment && off >= 0 && off+int(at.size) <= len(p.window) {
		return p.window[off : off+int(at.size)], nil
	}
	first := p.segments[at.segment].first // its size may only be read under mu
	size := int64(at.size)
	p.begin = at
	if p.q.Stream == "" {
		ahead := max(size, min(readAhead, int64(p.to-p.from)*size))
		if p.q.Backward {
			p.begin.offset = uint32(max(0, int64(at.offset)+size-ahead))
			size += int64(at.offset - p.begin.offset)
		} else {
			size = ahead
		}
	}
	var err error
	p.window, err = p.store.readAt(p.sp.dir, first, int64(p.begin.offset), size)
	if err != nil {
		return nil, err
	}
	off := int(at.offset - p.begin.offset)
	if off+int(at.size) > len(p.window) {
		return nil, p.stale(at)
	}
	return p.window[off : off+int(at.size)], nil
}

func (p *pageReader) stale(at entry) error {
	return fmt.Errorf("%s, at byte %d: the line is damaged: %w", segmentPath(p.sp.dir, p.segments[at.segment].first), at.offset, errStale)
}
