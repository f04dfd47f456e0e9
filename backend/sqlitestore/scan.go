package sqlitestore

import (
	"github.com/thole-dev/thole/journal"
)

// The parts of the queries of a scan. A filter needs only filterColumns.
const (
	filterColumns = `e.id, s.name, e.type, e.time, e.actor, e.subject`
	allColumns    = filterColumns + `, e.schema, e.cause, e.refs, e.data`
	inJournal     = ` FROM event AS e JOIN stream AS s ON s.id = e.stream WHERE e.id > ? AND e.id < ? ORDER BY e.id `
	inStream      = ` FROM stream AS s JOIN event AS e ON e.stream = s.id WHERE e.id > ? AND e.id < ? AND s.space = ? AND s.name = ? ORDER BY e.id `
	one           = `SELECT ` + allColumns + ` FROM event AS e JOIN stream AS s ON s.id = e.stream WHERE e.id = ?`
)

// walk returns the bound query of the scan. There are four statements for each list of
// columns.
func (sc *scan) walk(c *conn, columns string, limit int) *stmt {
	from, order := inJournal, `ASC`
	if sc.q.Stream != "" {
		from = inStream
	}
	if sc.q.Backward {
		order = `DESC`
	}
	s := c.prepare(`SELECT ` + columns + from + order + ` LIMIT ?`).int(sc.after).int(sc.until)
	if sc.q.Stream != "" {
		s.int(sc.space).text(sc.q.Stream)
	}
	return s.int(int64(limit))
}

// plain reads a page without filtering.
func (sc *scan) plain(c *conn) (page journal.Page, err error) {
	limit := journal.PageLimit(sc.q.Limit)
	page.Events = make([]journal.Event, 0, min(limit, 64))
	s := sc.walk(c, allColumns, limit+1)
	var e journal.Event
	for s.next() {
		if len(page.Events) == limit {
			page.Next = e.Position
			break
		}
		e = s.toMeta(sc.head, e)
		if err = s.rest(&e); err != nil {
			break
		}
		page.Events = append(page.Events, e)
	}
	if e := s.done(); err == nil {
		err = e
	}
	return page, err
}

// filtered reads a page of matching events. It reads the data only of those.
func (sc *scan) filtered(c *conn) (page journal.Page, err error) {
	limit := journal.PageLimit(sc.q.Limit)
	s := sc.walk(c, filterColumns, maxScan+1)
	var last journal.Event
	for n := 0; err == nil && s.next(); n++ {
		if len(page.Events) == limit || n == maxScan {
			page.Next = last.Position
			break
		}
		if last = s.toMeta(sc.head, last); sc.q.Match(last) {
			full := c.prepare(one).int(eventID(sc.space, last.Position.Seq))
			e := last
			if full.next() {
				err = full.rest(&e)
			}
			if e := full.done(); err == nil {
				err = e
			}
			page.Events = append(page.Events, e)
		}
	}
	if e := s.done(); err == nil {
		err = e
	}
	return page, err
}

// toMeta reads the filter columns. It shares equal strings with the event before,
// since they often repeat.
func (s *stmt) toMeta(h *journal.Head, before journal.Event) journal.Event {
	return journal.Event{
		Position: position(h, seqOf(s.ColumnInt64(0))),
		Stream:   s.colText(1, before.Stream),
		Type:     s.colText(2, before.Type),
		Time:     s.colTime(3),
		Actor:    s.colText(4, before.Actor),
		Subject:  s.colText(5, before.Subject),
		Cause:    before.Cause,
	}
}

// rest reads the columns after the filter columns.
func (s *stmt) rest(e *journal.Event) error {
	e.Schema = int(s.ColumnInt64(6))
	e.Cause = s.colText(7, e.Cause)
	e.Data = s.colJSON(9)
	refs := s.colJSON(8)
	if refs == nil {
		return nil
	}
	return journal.Decode("refs of event "+e.Position.String(), refs, &e.Refs)
}
