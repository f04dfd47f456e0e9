package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/thole-dev/thole/journal"
)

// maxScan is the most events that are read for one page, so that a filter that rarely
// matches does not occupy the server for long.
const maxScan = 8 * journal.MaxPage

// Read implements [journal.Backend].
func (s *Store) Read(ctx context.Context, space string, q journal.ReadQuery) (journal.Page, error) {
	sc := newScan(space, q)
	head := journal.Head{Space: space}
	err := s.query(ctx, func(rows pgx.Rows) (err error) {
		if err := sc.scan(rows); err != nil {
			return err
		}
		if len(head.Epochs) == 0 {
			if head, err = sc.head(space); err != nil {
				return err
			}
		}
		return sc.add(&head)
	}, sc.sql.String(), sc.args...)
	if err == nil {
		err = head.Resume(q.After)
	}
	if err != nil {
		return journal.Page{}, fmt.Errorf("read %s: %w", space, err)
	}
	return sc.page, nil
}

// scan is a walk over the events of a space or a stream.
type scan struct {
	limit    int
	backward bool
	sql      strings.Builder
	args     []any

	page journal.Page
	full bool

	row
	n, seq                *int64 // its number in the scan, if filtered; its seq
	stream, typ           *string
	time                  *time.Time
	schema                *int64
	actor, subject, cause *string
	refs, data            []byte
}

// newScan builds the statement. Limits are part of its text, since the server uses
// them for planning. With filters, the rows are numbered, and the row at which the
// page must end is part of the result even if it does not match.
func newScan(space string, q journal.ReadQuery) *scan {
	sc := &scan{limit: journal.PageLimit(q.Limit), backward: q.Backward}
	order := `ASC`
	if q.Backward {
		order = `DESC`
	}
	filter := sc.filter(q)
	number, limit := `0::bigint`, sc.limit+1
	if filter != "" {
		number, limit = `row_number() OVER (ORDER BY e.seq `+order+`)`, maxScan+1
	}
	write := func(format string, args ...any) { fmt.Fprintf(&sc.sql, format, args...) }
	write(`SELECT %s, e.* FROM thole.space AS s LEFT JOIN LATERAL (SELECT * FROM (SELECT %s AS n, e.seq, e.stream, e.type, e.time, e.schema,
		e.actor, e.subject, e.cause, e.refs, e.data FROM thole.event AS e WHERE e.space = s.id`, headColumns, number)
	if q.Stream != "" {
		write(` AND e.stream = %s`, sc.arg(q.Stream))
	}
	if !q.After.IsZero() {
		write(` AND e.seq > %s`, sc.arg(int64(q.After.Seq)))
	}
	if !q.Before.IsZero() {
		write(` AND e.seq < thole.seq_before(s.epochs, %s, %s)`, sc.arg(q.Before.Epoch), sc.arg(int64(q.Before.Seq)))
	}
	write(` ORDER BY e.seq %s LIMIT %d) AS e`, order, limit)
	if filter != "" {
		write(` WHERE e.n > %d OR %s ORDER BY e.seq %s LIMIT %d`, maxScan, filter, order, sc.limit+1)
	}
	write(`) AS e ON true WHERE s.name = %s AND NOT s.staged ORDER BY e.seq %s`, sc.arg(space), order)
	return sc
}

// arg adds an argument and returns its placeholder.
func (sc *scan) arg(value any) string {
	sc.args = append(sc.args, value)
	return fmt.Sprintf("$%d", len(sc.args))
}

// filter returns the SQL condition for the filters of q other than stream and range,
// "" if there are none.
func (sc *scan) filter(q journal.ReadQuery) string {
	var all []string
	and := func(condition string, value any) { all = append(all, condition+sc.arg(value)) }
	if len(q.Types) > 0 {
		var patterns []string
		for _, t := range q.Types {
			noun, any := strings.CutSuffix(t, ".*")
			pattern := likeEscapes.Replace(t)
			if any {
				pattern = likeEscapes.Replace(noun) + ".%"
			}
			patterns = append(patterns, pattern)
		}
		all = append(all, `e.type LIKE ANY (`+sc.arg(patterns)+`)`)
	}
	if q.Actor != "" {
		and(`e.actor = `, q.Actor)
	}
	if q.Subject != "" {
		and(`e.subject = `, q.Subject)
	}
	if !q.Since.IsZero() {
		and(`e.time >= `, q.Since)
	}
	if !q.Until.IsZero() {
		and(`e.time < `, q.Until)
	}
	if len(all) == 0 {
		return ""
	}
	return "(" + strings.Join(all, " AND ") + ")"
}

var likeEscapes = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

func (sc *scan) scan(rows pgx.Rows) error {
	return rows.Scan(&sc.oldest, &sc.last, &sc.epochs, &sc.n, &sc.seq, &sc.stream, &sc.typ, &sc.time, &sc.schema,
		&sc.actor, &sc.subject, &sc.cause, &sc.refs, &sc.data)
}

// add adds the row to the page, or sets Next if the page is full.
func (sc *scan) add(h *journal.Head) error {
	if sc.seq == nil || sc.full {
		return nil
	}
	at := position(h, uint64(*sc.seq))
	if *sc.n > maxScan { // the next page begins with this event
		if sc.backward {
			at.Seq++
		} else {
			at.Seq--
		}
		sc.page.Next, sc.full = at, true
		return nil
	}
	if n := len(sc.page.Events); n == sc.limit {
		sc.page.Next, sc.full = sc.page.Events[n-1].Position, true
		return nil
	}
	e := journal.Event{
		Position: at, Stream: *sc.stream, Type: *sc.typ, Time: sc.time.UTC(), Schema: int(*sc.schema),
		Actor: text(sc.actor), Subject: text(sc.subject), Cause: text(sc.cause), Data: sc.data,
	}
	if sc.refs != nil {
		if err := journal.Decode("refs of event "+at.String(), sc.refs, &e.Refs); err != nil {
			return err
		}
	}
	sc.page.Events = append(sc.page.Events, e)
	return nil
}

// text returns the value of an optional column, "" for NULL.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
