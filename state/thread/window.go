package thread

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/thole-dev/thole"
)

// Window is the default of Query.Last.
const Window = 50

// Query selects a part of a thread's history. The zero value is its newest
// window.
type Query struct {
	Last   int            // at most this many, 1…MaxPage; 0: Window
	Cursor string         // the Next of an earlier page
	At     thole.Position // the history as of this position; zero: now
}

// Turns returns a page of the thread's turns. A page that reaches back to a compaction
// begins with a turn that holds only the summary block; the turns that it replaces are
// on older pages. The last page may be empty: only an empty Next means the end. Errors:
// ErrNotFound; ErrInvalid for a bad cursor; *TrimmedError for a position that is not kept.
func (ts *Threads) Turns(ctx context.Context, id string, q *Query) (thole.PageOf[*Turn], error) {
	w, err := ts.window(ctx, id, q, func(a *Added) int {
		if a.opens() {
			return 1
		}
		return 0
	})
	if err != nil {
		return thole.PageOf[*Turn]{}, fmt.Errorf("turns of thread %s: %w", id, err)
	}
	page := thole.PageOf[*Turn]{Items: append([]*Turn{}, w.turns...)}
	if w.more {
		page.Next = cursor{before: w.oldest}.String()
	}
	return page, nil
}

// Messages is [Threads.Turns] as a list of messages. A run's response is one message,
// which appears with its first block. A page may hold fewer messages than Last although
// there are older ones; only an empty Next means the end.
func (ts *Threads) Messages(ctx context.Context, id string, q *Query) (thole.PageOf[*Message], error) {
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
		return thole.PageOf[*Message]{}, fmt.Errorf("messages of thread %s: %w", id, err)
	}
	return w.messages(), nil
}

// window is the part of a history that was read: whole turns, at least as many as asked.
type window struct {
	query  Query
	from   cursor
	turns  []*Turn
	oldest thole.Position // where the turns begin
	newest thole.Position // just after the newest event that was read
	more   bool           // there may be older turns
}

// messages returns the window's messages, cut to the query. If the cut is inside a turn,
// the next page reads that turn again and skips the messages already returned.
func (w *window) messages() thole.PageOf[*Message] {
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
	page := thole.PageOf[*Message]{Items: all[start:end]}
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

// window reads the thread's stream backward, page by page, until the counts of its whole
// turns sum up to what q asks for.
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

// newest returns the head and the version of the thread's history, which is the later of
// the head's and the open turn's: every commit to the history writes one of them.
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

// maxSkip bounds the messages that a cursor skips. They belong to one turn, which is
// read as a whole.
const maxSkip = 1 << 30

// cursor is a place in a history: skip messages before the turn that begins at before.
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
