package main

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// concepts checks what the concepts promise of a space's records: what is
// current is what the events add up to, and nothing belongs to something that
// is gone.
func (d *doctor) concepts(ctx context.Context, sp *thole.Space, recs map[string]thole.Record) {
	undecided := 0
	for key, rec := range recs {
		kind, rest, _ := strings.Cut(key, "/")
		id, below, _ := strings.Cut(rest, "/")
		switch {
		case (kind == "thread" || kind == "run") && below != "" && !recs[kind+"/"+id].Exists():
			d.say("problem", sp.Name(), "record %s is an orphan: %s/%s is gone", key, kind, id)
		case kind == "thread" && below == "":
			d.thread(ctx, sp, rec)
		case kind == "thread" && below == "state":
			d.document(ctx, sp, document.Under(sp, "thread/"+id, "thread/"+id), "state", rec)
		case kind == "document" && below == "":
			d.documentRecord(ctx, sp, rec)
		case kind == "run" && below == "":
			d.run(sp, rec, recs)
		case kind == "outbox":
			d.say("note", sp.Name(), "message %s to another space waits for its delivery since %s", id, rec.Updated.Local().Format("2006-01-02 15:04:05"))
		case kind == "decision" && id == "open":
			undecided++
		}
	}
	if undecided > 0 {
		d.say("note", sp.Name(), "%d decisions have no outcome; see `thole get %s decision/open/`", undecided, sp.Name())
	}
}

// thread folds the whole history and compares it with the head.
func (d *doctor) thread(ctx context.Context, sp *thole.Space, rec thole.Record) {
	var t thread.Thread
	if err := rec.As(&t); err != nil {
		d.say("problem", sp.Name(), "%v", err)
		return
	}
	id := strings.TrimPrefix(rec.Key, "thread/")
	messages := 0
	q := &thread.Query{Last: thole.MaxPage}
	for {
		page, err := thread.In(sp).Messages(ctx, id, q)
		if err != nil {
			d.say("problem", sp.Name(), "thread %s cannot be read: %v", id, err)
			return
		}
		messages += len(page.Items)
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	// The head also counts what a rollback took out; a reply counts once it has begun.
	if messages > t.Messages+t.Turns {
		d.say("problem", sp.Name(), "thread %s has %d messages in its journal, its head says %d", id, messages, t.Messages)
	}
}

func (d *doctor) documentRecord(ctx context.Context, sp *thole.Space, rec thole.Record) {
	docs := document.In(sp)
	page, err := docs.List(ctx, nil)
	if err != nil {
		d.say("problem", sp.Name(), "documents cannot be listed: %v", err)
		return
	}
	for _, doc := range page.Documents {
		if doc.Version == rec.Version {
			d.document(ctx, sp, docs, doc.Name, rec)
			return
		}
	}
}

// document replays the document's events and compares with its record.
func (d *doctor) document(ctx context.Context, sp *thole.Space, docs *document.Documents, name string, rec thole.Record) {
	now, err := docs.Get(ctx, name, nil)
	if err != nil {
		d.say("problem", sp.Name(), "document %s: %v", name, err)
		return
	}
	past, err := docs.Replay(ctx, name, rec.Version)
	switch {
	case errors.Is(err, thole.ErrTrimmed):
		return // its past was purged
	case err != nil:
		d.say("problem", sp.Name(), "document %s at %s: %v", name, rec.Version, err)
	case now.Version == rec.Version && (past.Version != rec.Version || !sameJSON(now.Value, past.Value)):
		d.say("problem", sp.Name(), "document %s is not what its events add up to at %s", name, rec.Version)
	}
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// run checks that who works has a lease, and that the thread is there.
func (d *doctor) run(sp *thole.Space, rec thole.Record, recs map[string]thole.Record) {
	var r run.Run
	if err := rec.As(&r); err != nil {
		d.say("problem", sp.Name(), "%v", err)
		return
	}
	if (r.Status == run.Running || r.Status == run.Waiting) && !recs[rec.Key+"/owner"].Exists() {
		d.say("problem", sp.Name(), "%s is %s but nobody holds its lease", rec.Key, r.Status)
	}
	if !r.Ended() && !recs[thread.Key(r.Thread)].Exists() {
		d.say("problem", sp.Name(), "%s is %s in thread %s, which is gone", rec.Key, r.Status, r.Thread)
	}
}
