package thread

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/look"
	"github.com/thole-dev/thole/journal"
)

// Entry is a thread in a list: part of its head, without its history.
type Entry struct {
	ID         string    `json:"id"`
	Assistant  string    `json:"assistant,omitempty"`
	Title      string    `json:"title,omitempty"`
	Status     string    `json:"status"`
	Visibility string    `json:"visibility"`
	Owner      string    `json:"owner,omitempty"`
	Turns      int       `json:"turn_count"`
	Created    time.Time `json:"created_at"`
	Updated    time.Time `json:"updated_at"`
}

// ListOptions of [Threads.List]. The zero value lists the first MaxPage threads.
type ListOptions struct {
	Limit     int    // at most this many, 1…MaxPage; 0: MaxPage
	Cursor    string // the Next of an earlier page
	Assistant string // only its threads; "": all
	Children  bool   // sub-agents' threads too
}

// afterAll sorts after every key below a thread.
const afterAll = "/\U0010FFFF"

// List returns threads in the order of their ids, which is the order of their
// creation. It leaves out those that cannot be read: see [thole.Space.LeavesOut]. With a
// filter, or after 16 MiB of records, a page may hold fewer threads than Limit although
// there are more; only an empty Next means the end. Errors: ErrInvalid for a bad cursor.
func (ts *Threads) List(ctx context.Context, opts *ListOptions) (thole.PageOf[Entry], error) {
	var o ListOptions
	if opts != nil {
		o = *opts
	}
	o.Limit = journal.PageLimit(o.Limit)
	q := thole.ListQuery{Prefix: "thread/"}
	if o.Cursor != "" {
		if err := thole.CheckID("thrd", o.Cursor); err != nil {
			return thole.PageOf[Entry]{}, fmt.Errorf("list threads: %w", err)
		}
		q.After = Key(o.Cursor) + afterAll
	}
	// The records below a thread sort between it and the next one. Each query starts
	// after those of the last thread seen.
	page := thole.PageOf[Entry]{Items: []Entry{}}
	for {
		q.Limit = min(o.Limit-page.Looked, look.MaxPage) + 1 // one more tells whether there is a next page
		recs, err := ts.sp.List(ctx, q)
		if err != nil {
			return thole.PageOf[Entry]{}, fmt.Errorf("list threads: %w", err)
		}
		for _, r := range recs {
			id, below, _ := strings.Cut(strings.TrimPrefix(r.Key, "thread/"), "/")
			q.After = Key(id) + afterAll
			page.Bytes += len(r.Value)
			switch {
			case below != "", thole.CheckID("thrd", id) != nil: // not a thread's head
				continue
			case page.Looked == o.Limit:
				return page, nil
			}
			page.Looked++
			page.Next = id
			t, err := decode(id, r)
			switch {
			case ts.sp.LeavesOut(r, err):
				continue
			case err != nil:
				return thole.PageOf[Entry]{}, err
			}
			if (t.Parent == "" || o.Children) && (o.Assistant == "" || o.Assistant == t.Assistant) {
				page.Items = append(page.Items, t.entry())
			}
		}
		if len(recs) < q.Limit {
			page.Next = ""
			return page, nil
		}
		if page.Bytes >= look.MaxBytes && page.Looked > 0 {
			return page, nil
		}
	}
}

func (t *Thread) entry() Entry {
	return Entry{ID: t.ID, Assistant: t.Assistant, Title: t.Title, Status: t.Status, Visibility: t.Visibility,
		Owner: t.Owner, Turns: t.Turns, Created: t.Created, Updated: t.Updated}
}
