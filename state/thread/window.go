package thread

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/thole-dev/thole"
)

// Window is how many turns or messages are returned when a query does not say.
const Window = 50

// Query selects a part of a thread's history. The zero value is its newest
// window.
type Query struct {
	Last   int            // at most this many, 1…MaxPage; 0: Window
	Cursor string         // go on before this: the Next of an earlier page
	At     thole.Position // as the history was at this position; zero: now
}

// Page is a part of a history, oldest first.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next_cursor,omitempty"` // the cursor of what is older; "": there is nothing
	Bytes int    `json:"-"`                     // of [Threads.List]: how large the records are that were looked at
}

// Turns returns a page of the thread's turns. Where the history was compacted,
// the window begins with a turn that holds only the summary block; the turns it
// stands for follow on older pages. Errors: ErrNotFound; ErrInvalid for a bad
// cursor; *TrimmedError for a position that is not kept.
func (ts *Threads) Turns(ctx context.Context, id string, q *Query) (Page[*Turn], error) {
	w, err := ts.window(ctx, id, q, func(a *Added) int {
		if a.opens() {
			return 1
		}
		return 0
	})
	if err != nil {
		return Page[*Turn]{}, fmt.Errorf("turns of thread %s: %w", id, err)
	}
	page := Page[*Turn]{Items: append([]*Turn{}, w.turns...)}
	if w.more {
		page.Next = cursor{before: w.oldest}.String()
	}
	return page, nil
}

// Messages is [Threads.Turns] as a list of messages. What a run has said is one
// message, which is there from its first block on. A page may hold fewer than
// asked for although there are older ones: Next tells.
func (ts *Threads) Messages(ctx context.Context, id string, q *Query) (Page[*Message], error) {
	w, err := ts.window(ctx, id, q, func(a *Added) int {
		n := 0
		if a.Message != nil {
			n++
		}
		if a.Run != "" {
			n++ // its reply
		}
		return n
	})
	if err != nil {
		return Page[*Message]{}, fmt.Errorf("messages of thread %s: %w", id, err)
	}
	return w.messages(), nil
}

// window is what was read of a history: whole turns, more than enough.
type window struct {
	query  Query
	from   cursor
	turns  []*Turn
	oldest thole.Position // where the turns begin
	newest thole.Position // an end of what was read: after its newest event
	more   bool           // there may be older ones
}

// messages cuts the window's messages to the query. The cut may fall into a
// turn: the next page then reads that turn again and skips what was given out.
func (w *window) messages() Page[*Message] {
	type place struct{ turn, index int }
	all := []*Message{}
	var places []place
	for i, t := range w.turns {
		for j, m := range t.messages {
			all, places = append(all, m), append(places, place{i, j})
		}
	}
	end := max(0, len(all)-w.from.skip)
	start := max(0, end-w.query.Last)
	page := Page[*Message]{Items: all[start:end]}
	switch {
	case start == 0 && !w.more:
	case start == 0:
		page.Next = cursor{before: w.oldest}.String()
	case places[start].index == 0:
		page.Next = cursor{before: w.turns[places[start].turn].Position}.String()
	default:
		at := places[start]
		next := cursor{before: w.newest, skip: len(w.turns[at.turn].messages) - at.index}
		if at.turn+1 < len(w.turns) {
			next.before = w.turns[at.turn+1].Position
		}
		page.Next = next.String()
	}
	return page
}

// window reads the thread's stream backward, page by page, until it has whole
// turns that count for at least what q asks.
func (ts *Threads) window(ctx context.Context, id string, q *Query, count func(*Added) int) (*window, error) {
	w := &window{}
	if q != nil {
		w.query = *q
	}
	if w.query.Last <= 0 {
		w.query.Last = Window
	}
	w.query.Last = min(w.query.Last, thole.MaxPage)
	t, version, err := ts.newest(ctx, id)
	if err != nil {
		return nil, err
	}
	if w.from, err = parseCursor(w.query.Cursor); err != nil {
		return nil, err
	}
	if at := w.query.At; !at.IsZero() && w.from.before.IsZero() {
		head, err := ts.sp.Head(ctx)
		if err == nil {
			err = head.Resume(at)
		}
		if err != nil {
			return nil, err
		}
		at.Seq++
		w.from.before = at
	}
	b := &backward{sp: ts.sp, stream: Key(id), at: version, before: w.from.before, want: w.query.Last + w.from.skip, count: count}
	if err := b.read(ctx); err != nil {
		return nil, err
	}
	live := ""
	if t.TurnStatus == Streaming {
		live = t.LastTurn
	}
	w.turns = b.fold(live)
	w.oldest, w.newest, w.more = b.oldest, b.newest, b.more
	return w, nil
}

// newest returns the head and the version of the thread's history: every commit
// that adds to it writes the head or the turn that is being run.
func (ts *Threads) newest(ctx context.Context, id string) (*Thread, thole.Position, error) {
	if err := thole.CheckID("thrd", id); err != nil {
		return nil, thole.Position{}, err
	}
	recs, err := ts.sp.GetAll(ctx, Key(id), turnKey(id))
	if err != nil {
		return nil, thole.Position{}, err
	}
	t, err := decode(id, recs[0])
	if err != nil {
		return nil, thole.Position{}, err
	}
	version := t.Version
	if recs[1].Version.Compare(version) > 0 {
		version = recs[1].Version
	}
	return t, version, nil
}

// maxSkip bounds the messages that a cursor passes over. They are of one turn,
// which is read as a whole.
const maxSkip = 1 << 30

// cursor is a place in a history: before the turn that begins at before, or at
// that many messages before it.
type cursor struct {
	before thole.Position
	skip   int
}

func (c cursor) String() string {
	if c.skip == 0 {
		return c.before.String()
	}
	return c.before.String() + "." + strconv.Itoa(c.skip)
}

func parseCursor(s string) (cursor, error) {
	pos, skip, skips := strings.Cut(s, ".")
	at, err := thole.ParsePosition(pos)
	if err != nil || !skips {
		return cursor{before: at}, err
	}
	n, err := strconv.Atoi(skip)
	if err != nil || n <= 0 || n > maxSkip || at.IsZero() {
		return cursor{}, fmt.Errorf("%w: cursor %.60q", thole.ErrInvalid, s)
	}
	return cursor{before: at, skip: n}, nil
}
