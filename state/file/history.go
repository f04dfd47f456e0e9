package file

import (
	"context"
	"fmt"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/look"
)

// Entry is a change in a file's history.
type Entry struct {
	Change
	Position thole.Position `json:"position"`
	Time     time.Time      `json:"changed_at"`
	Cause    string         `json:"cause,omitempty" names:"masked"`
}

// HistoryOptions of [Files.History].
type HistoryOptions struct {
	Cursor string // the Next of an earlier page
	Limit  int    // 1…1,000; 0: 100
}

// History returns the changes of the file at path, newest first, without those whose
// events were trimmed or erased. Where it has to search for a change, because the one
// after it was erased or the cursor is not of this list, it ends the page early.
func (f *Files) History(ctx context.Context, path string, opts *HistoryOptions) (thole.PageOf[Entry], error) {
	var o HistoryOptions
	if opts != nil {
		o = *opts
	}
	if o.Limit <= 0 {
		o.Limit = 100
	}
	o.Limit = min(o.Limit, thole.MaxPage)
	var page thole.PageOf[Entry]
	before, err := thole.ParsePosition(o.Cursor)
	if err != nil {
		return page, fmt.Errorf("history of %s: %w", path, err)
	}
	now, err := f.Get(ctx, path)
	if err != nil || !now.Known {
		return page, err
	}
	if newest := after(now.Version); before.IsZero() || newest.Compare(before) < 0 {
		before = newest
	}
	var budget look.Budget
	for {
		e, next, err := f.changeBefore(ctx, path, before, &budget)
		if err != nil {
			return page, err
		}
		if e != nil {
			page.Items = append(page.Items, *e)
			next = after(e.Previous)
		}
		if next.IsZero() {
			return page, nil
		}
		if e == nil || len(page.Items) == o.Limit {
			page.Next = next.String()
			return page, nil
		}
		before = next
	}
}

// after returns the position just after a version of a file, so that no events between
// are searched; zero if the version is.
func after(version thole.Position) thole.Position {
	if !version.IsZero() {
		version.Seq++
	}
	return version
}

// changeBefore finds the newest change of the file before a position. It is the stream's
// event before that, unless that one's commit changed more files. If the budget is spent
// first, it returns where to go on; zero if there is no change.
func (f *Files) changeBefore(ctx context.Context, path string, before thole.Position, budget *look.Budget) (*Entry, thole.Position, error) {
	for q := (thole.ReadQuery{Stream: Stream, Before: before, Backward: true, Limit: 1}); ; q.Limit = budget.Page(q.Limit) {
		events, err := f.sp.Read(ctx, q)
		if err != nil {
			return nil, thole.Position{}, fmt.Errorf("history of %s: %w", path, err)
		}
		bytes := 0
		for i := range events.Events {
			bytes += len(events.Events[i].Data)
		}
		budget.Took(len(events.Events), bytes)
		for _, e := range events.Events {
			if e.Type != TypeChanged || e.Data == nil {
				continue // or erased
			}
			entry := Entry{Position: e.Position, Time: e.Time, Cause: e.Cause}
			if err := e.As(&entry.Change); err != nil {
				return nil, thole.Position{}, err
			}
			if entry.Path == path {
				return &entry, thole.Position{}, nil
			}
		}
		if q.Before = events.Next; q.Before.IsZero() || budget.Spent() {
			return nil, q.Before, nil
		}
	}
}

// ListOptions of [Files.List].
type ListOptions struct {
	After string // the Next of an earlier page: list the paths after it
	Limit int    // 1…1,000; 0: 1,000
}

// List returns the known files in the byte order of their escaped paths. Deleted ones
// have an empty hash. It leaves out records that cannot be read: see
// [thole.Space.LeavesOut].
func (f *Files) List(ctx context.Context, opts *ListOptions) (thole.PageOf[File], error) {
	var o ListOptions
	if opts != nil {
		o = *opts
	}
	list, next, err := f.sp.ListByName(ctx, "file/", o.After, o.Limit)
	if err != nil {
		return thole.PageOf[File]{}, err
	}
	page := thole.PageOf[File]{Next: next}
	for _, rec := range list {
		file, err := read(rec.Name, rec.Record)
		switch {
		case f.sp.LeavesOut(rec.Record, err):
			continue
		case err != nil:
			return thole.PageOf[File]{}, err
		}
		page.Items = append(page.Items, file)
	}
	return page, nil
}
