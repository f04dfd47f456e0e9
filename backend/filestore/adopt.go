package filestore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/journal"
)

// What people or git did to the files becomes part of the history: a new epoch
// that begins with a commit by user:hand. Its event says what was found; its writes
// are the changed records. Watchers get ErrTrimmed, and so does, from then on, a
// cursor into a part of the journal that was removed.
const (
	handActor    = "user:hand"
	adoptStream  = "space"
	adoptType    = "space.adopted"
	maxAdopted   = 200 // writes in one commit
	maxNamedKeys = 100 // changed keys that the event names, and as many deleted ones
)

// adoption is the data of the event.
type adoption struct {
	Reasons []string `json:"reasons"`
	Changed []string `json:"changed,omitempty"` // keys of records, the first ones
	Deleted []string `json:"deleted,omitempty"`
	Total   int      `json:"total"` // records that were changed or deleted
}

// adopt appends the changes of a person to the journal, in as many commits as they
// need.
func (r *recovery) adopt() (*addition, error) {
	sp := r.sp
	r.seen(r.note.Last.Epoch)
	if sp.head.Last.IsZero() { // nothing is left: continue after the last known seq
		sp.head = journal.Head{Space: sp.name}
	}
	epoch := journal.NewEpoch(r.generation + 1)
	seq := max(sp.head.Last.Seq, r.lastLost())
	slices.SortFunc(r.hand, func(a, b change) int { return strings.Compare(a.Key, b.Key) })
	a := &addition{sp: sp}
	now := time.Now()
	event, err := r.found()
	if err != nil {
		return nil, err
	}
	for rest := r.hand; event != nil || len(rest) > 0; {
		c := journal.Commit{Space: sp.name, Now: now, Actor: handActor}
		if event != nil {
			c.Events, event = []journal.Event{*event}, nil
		}
		n := takeChanges(rest)
		for _, h := range rest[:n] {
			c.Writes = append(c.Writes, journal.Write{Key: h.Key, Value: h.Value, Schema: h.Schema, Expires: h.Expires, Notify: h.Notify})
		}
		rest = rest[n:]
		seq++
		at := journal.Position{Epoch: epoch, Seq: seq}
		l := newLine(&c, journal.Result{First: at, Last: at})
		l.Adopted = len(a.lines) == 0
		a.add(l)
	}
	a.place(r.opts.SegmentBytes)
	if err := r.put([]*addition{a}); err != nil {
		return nil, err
	}
	if a.refused != nil {
		return nil, a.refused
	}
	r.reportf("space %s was changed by hand and adopted as epoch %s: %s", sp.name, epoch, strings.Join(r.reasons, "; "))
	return a, nil
}

// lastLost returns the last known seq if nothing is left of the journal, else 0.
func (r *recovery) lastLost() uint64 {
	if r.sp.head.Last.IsZero() {
		return r.note.Last.Seq
	}
	return 0
}

// takeChanges returns how many of the first changes fit into one commit.
func takeChanges(changes []change) int {
	size := 0
	for i := range changes {
		size += len(changes[i].Value) + len(changes[i].Key)
		if i == maxAdopted || i > 0 && size > journal.MaxCommitBytes/2 {
			return i
		}
	}
	return len(changes)
}

// found returns the event that says what was found.
func (r *recovery) found() (*journal.Event, error) {
	d := adoption{Reasons: r.reasons, Total: len(r.hand)}
	for _, h := range r.hand {
		if h.Value == nil {
			d.Deleted = append(d.Deleted, h.Key)
		} else {
			d.Changed = append(d.Changed, h.Key)
		}
	}
	if len(r.hand) > 0 {
		d.Reasons = append(d.Reasons, fmt.Sprintf("%d records were changed and %d deleted", len(d.Changed), len(d.Deleted)))
		r.reasons = d.Reasons
	}
	d.Changed = d.Changed[:min(len(d.Changed), maxNamedKeys)]
	d.Deleted = d.Deleted[:min(len(d.Deleted), maxNamedKeys)]
	data, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return &journal.Event{Stream: adoptStream, Type: adoptType, Data: data}, nil
}
