package main

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// concepts checks what the concepts promise of a space's records: what is
// current is what the events add up to, and nothing belongs to something that
// is gone. Records come in key order, so an owner comes before what is below it.
type concepts struct {
	*doctor
	sp    *thole.Space
	owner string // the thread or run that was seen last
	open  int    // decisions without an outcome

	below map[string][]string // the threads and runs that are children, by what they are below

	listed map[string]bool // chunks of the blobs
	loose  map[string]int  // bytes of the chunks that no blob lists
}

func (c *concepts) record(ctx context.Context, rec thole.Record) error {
	kind, rest, _ := strings.Cut(rec.Key, "/")
	id, below, _ := strings.Cut(rest, "/")
	switch {
	case (kind == "thread" || kind == "run") && below == "":
		c.owner = rec.Key
		if kind == "run" {
			return c.run(ctx, rec)
		}
		return c.thread(ctx, id, rec)
	case (kind == "thread" || kind == "run") && c.owner != kind+"/"+id:
		c.say("problem", c.sp.Name(), "record %s is an orphan: %s/%s is gone", rec.Key, kind, id)
	case (kind == "thread" || kind == "run") && strings.HasPrefix(below, "child/"):
		c.below[c.owner] = append(c.below[c.owner], kind+"/"+strings.TrimPrefix(below, "child/"))
	case kind == "thread" && below == "state":
		c.document(ctx, document.Under(c.sp, c.owner, c.owner), "state", rec)
	case kind == "document" && below == "":
		name, err := url.PathUnescape(id)
		if err != nil {
			c.say("problem", c.sp.Name(), "record %s does not name a document: %v", rec.Key, err)
			return nil
		}
		c.document(ctx, document.In(c.sp), name, rec)
	case kind == "outbox":
		c.say("note", c.sp.Name(), "a commit to another space waits for its delivery since %s (%s)", stamp(rec.Updated), rec.Key)
	case kind == "decision-open":
		c.open++
	case kind == "blob" || kind == "upload": // one before, the other behind the chunks
		var lists struct{ Chunks []string }
		if err := rec.As(&lists); err != nil {
			c.say("problem", c.sp.Name(), "record %s cannot be read: %v", rec.Key, err)
		}
		for _, name := range lists.Chunks {
			c.listed[name] = true
			delete(c.loose, name)
		}
	case kind == "chunk" && !c.listed[id]:
		c.loose[id] = len(rec.Value)
	}
	return nil
}

func (c *concepts) end() {
	c.cycles()
	if c.open > 0 {
		c.say("note", c.sp.Name(), "%d decisions have no outcome; see `thole get %s decision-open/`", c.open, c.sp.Name())
	}
	if len(c.loose) > 0 {
		bytes := 0
		for _, n := range c.loose {
			bytes += n
		}
		c.say("note", c.sp.Name(), "%d chunks (%d bytes) belong to no blob: an earlier version kept them of uploads that failed", len(c.loose), bytes)
	}
}

// cycles finds threads and runs that are below themselves, which only a commit from
// outside can make.
func (c *concepts) cycles() {
	const above, done = 1, 2
	state := make(map[string]int)
	for _, top := range slices.Sorted(maps.Keys(c.below)) {
		for path := []string{top}; len(path) > 0; {
			at := path[len(path)-1]
			state[at] = above
			if len(c.below[at]) == 0 {
				state[at] = done
				path = path[:len(path)-1]
				continue
			}
			next := c.below[at][0]
			c.below[at] = c.below[at][1:]
			switch state[next] {
			case above:
				c.say("problem", c.sp.Name(), "%s is below itself: %s/child/… names %s", next, at, next)
			case 0:
				path = append(path, next)
			}
		}
	}
}

// thread compares the messages in the journal with the count in the head.
func (c *concepts) thread(ctx context.Context, id string, rec thole.Record) error {
	var t thread.Thread
	if err := rec.As(&t); err != nil {
		c.say("problem", c.sp.Name(), "%v", err)
		return nil
	}
	messages := 0
	q := thole.ReadQuery{Stream: thread.Key(id), Types: []string{"message.added"}}
	for e, err := range c.sp.Events(ctx, q) {
		var a thread.Added
		switch {
		case err != nil:
		case e.Data == nil:
			return nil // erased: there is nothing to compare with
		default:
			err = e.As(&a)
		}
		if errors.Is(err, thole.ErrCorrupt) {
			c.say("problem", c.sp.Name(), "thread %s: %v", id, err)
			return nil
		}
		if err != nil {
			return err
		}
		if e.Position.Compare(rec.Version) > 0 {
			break // it came after the head was read
		}
		if a.Message != nil {
			messages++
		}
		if a.Run != "" {
			messages++ // the reply that the run makes
		}
	}
	if messages != t.Messages {
		c.say("problem", c.sp.Name(), "thread %s has %d messages in its journal, its head says %d", id, messages, t.Messages)
	}
	if _, err := thread.In(c.sp).Turns(ctx, id, nil); err != nil {
		c.say("problem", c.sp.Name(), "thread %s cannot be read: %v", id, err)
	}
	return nil
}

// document replays the document's events and compares with its record.
func (c *concepts) document(ctx context.Context, docs *document.Documents, name string, rec thole.Record) {
	now, err := docs.Get(ctx, name, nil)
	if err != nil {
		c.say("problem", c.sp.Name(), "document %s: %v", name, err)
		return
	}
	past, err := docs.Replay(ctx, name, rec.Version)
	switch {
	case errors.Is(err, thole.ErrTrimmed):
		return // its past was purged
	case err != nil:
		c.say("problem", c.sp.Name(), "document %s at %s: %v", name, rec.Version, err)
	case now.Version == rec.Version && (past.Version != rec.Version || !document.Equal(now.Value, past.Value)):
		c.say("problem", c.sp.Name(), "document %s is not what its events add up to at %s", name, rec.Version)
	}
}

// run checks that who works has a lease, and that the thread is there.
func (c *concepts) run(ctx context.Context, rec thole.Record) error {
	var r run.Run
	if err := rec.As(&r); err != nil {
		c.say("problem", c.sp.Name(), "%v", err)
		return nil
	}
	recs, err := c.sp.GetAll(ctx, rec.Key, rec.Key+"/owner", thread.Key(r.Thread))
	if err != nil {
		return err
	}
	if recs[0].Version != rec.Version || r.Ended() {
		return nil // it went on meanwhile, or is over
	}
	if r.Status != run.Queued && !recs[1].Exists() {
		c.say("problem", c.sp.Name(), "%s is %s but nobody holds its lease", rec.Key, r.Status)
	}
	// A queued one ends when a worker or a reader comes upon it, an active one when
	// its worker does or its lease runs out.
	if r.Status != run.Queued && recs[1].Exists() && !recs[2].Exists() {
		c.say("note", c.sp.Name(), "%s is %s in thread %s, which is gone; it ends with its lease", rec.Key, r.Status, r.Thread)
	}
	return nil
}
