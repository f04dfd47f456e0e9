package file

import (
	"context"
	"fmt"
	"time"

	"github.com/thole-dev/thole"
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
// events were trimmed or erased.
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
	at, err := thole.ParsePosition(o.Cursor)
	if err != nil {
		return page, fmt.Errorf("history of %s: %w", path, err)
	}
	if at.IsZero() {
		now, err := f.Get(ctx, path)
		if err != nil || !now.Known {
			return page, err
		}
		at = now.Version
	} else {
		at.Seq--
	}
	// The newest change is at or before at.
	for !at.IsZero() && at.Seq > 0 {
		e, found, err := f.changeAt(ctx, path, at)
		if err != nil || !found {
			return page, err
		}
		page.Items = append(page.Items, e)
		at = e.Previous
		if len(page.Items) == o.Limit && !at.IsZero() {
			at.Seq++ // just after it, so that no events between are searched
			page.Next = at.String()
			return page, nil
		}
	}
	return page, nil
}

// changeAt finds the newest change of the file at or before one of its versions. It is the
// stream's event at that position, unless its commit changed more files.
func (f *Files) changeAt(ctx context.Context, path string, at thole.Position) (Entry, bool, error) {
	before := at
	before.Seq++
	q := thole.ReadQuery{Stream: Stream, Types: []string{TypeChanged}, Before: before, Backward: true, Limit: 4}
	for e, err := range f.sp.Events(ctx, q) {
		if err != nil {
			return Entry{}, false, fmt.Errorf("history of %s: %w", path, err)
		}
		if e.Data == nil {
			continue // erased
		}
		entry := Entry{Position: e.Position, Time: e.Time, Cause: e.Cause}
		if err := e.As(&entry.Change); err != nil {
			return Entry{}, false, err
		}
		if entry.Path == path {
			return entry, true, nil
		}
	}
	return Entry{}, false, nil
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
