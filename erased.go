package thole

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// erasedKey is the record that every purge of streams or events writes anew, when it
// begins and when they are gone. Its version tells every Store on the backend whether
// what it keeps in memory of a space was read before the last purge: Projections compare it
// each time, the fan-out when a watch begins and when it catches up with the journal.
//
//	erased        null
//	erased/<id>   an erasure that goes on, or an end of a record with more below it than
//	              one commit can hold; expires soon
//
// A sweep finishes an erasure whose process died, or whose backend failed, from the
// start. To do it again does no harm: it takes only what is no newer than the version of
// its note, and only in the space that has the note.
const (
	erasedKey  = "erased"
	erasureTTL = 10 * time.Second // until then its process is at it
)

// erasurePart bounds how many streams or events one erasure names, so that its record
// holds them.
const erasurePart = 500

// erasure is a purge of streams, or of events, and what goes with them.
type erasure struct {
	Streams   []string   `json:"streams,omitempty"`
	UpTo      Position   `json:"up_to,omitzero"` // of Streams; zero: the note's version
	Events    []Position `json:"events,omitempty"`
	Snapshots []string   `json:"snapshots,omitempty"` // the streams whose snapshots go
	Below     string     `json:"below,omitempty"`     // no purge: what is left below this record, which ended
}

// erase purges streams or events in parts.
func (sp *Space) erase(ctx context.Context, p Purge) error {
	head, err := sp.Head(ctx)
	if err != nil {
		return err
	}
	if head.Last.IsZero() { // a commit would make the space
		return fmt.Errorf("%s: %w", sp.name, ErrNotFound)
	}
	if p.Through(head) == 0 {
		return nil
	}
	plain := *sp // what is gone is gone, whoever holds the lease by now
	plain.fences = nil
	ctx = WithoutIdempotencyKey(ctx)
	for part := range slices.Chunk(p.Streams, erasurePart) {
		if err := plain.begin(ctx, erasure{Streams: part, UpTo: p.UpTo, Snapshots: part}); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(p.Events, erasurePart) {
		streams, err := plain.streamsOf(ctx, part)
		if err != nil {
			return err
		}
		if err := plain.begin(ctx, erasure{Events: part, Snapshots: streams}); err != nil {
			return err
		}
	}
	return nil
}

// streamsOf returns the streams of the events at these positions, without those that
// are not kept.
func (sp *Space) streamsOf(ctx context.Context, at []Position) (streams []string, err error) {
	for _, at := range at {
		behind := at
		behind.Seq++
		page, err := sp.Read(ctx, ReadQuery{Before: behind, Backward: true, Limit: 1})
		if errors.Is(err, ErrTrimmed) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(page.Events) == 1 && page.Events[0].Position == at && !slices.Contains(streams, page.Events[0].Stream) {
			streams = append(streams, page.Events[0].Stream)
		}
	}
	return streams, nil
}

// begin notes the erasure and does it.
func (sp *Space) begin(ctx context.Context, e erasure) error {
	value, err := marshal(e)
	if err != nil {
		return err
	}
	note := erasedKey + "/" + NewID("ers")
	then, now := *sp, sp.time()
	then.asOf = &now // the note counts until it is deleted, however long the purge takes
	res, err := then.commit(ctx, Commit{Writes: []Write{
		{Key: erasedKey, Value: []byte("null")},
		{Key: note, Value: value, Expires: now.Add(erasureTTL)},
	}})
	if err != nil {
		return err
	}
	return then.finish(ctx, Check{Key: note, At: res.Last}, e)
}

// finish does the erasure under note, which may have been done in part, makes what was
// kept in memory before now count no more, in every process, and deletes the snapshots.
// The note stays after an error that another try may not meet. If it is gone, somebody
// else has finished, or the space was removed, and nothing is left to do.
func (sp *Space) finish(ctx context.Context, note Check, e erasure) error {
	p := Purge{Streams: e.Streams, Events: e.Events}
	if len(p.Streams) > 0 {
		p.UpTo = cmp.Or(e.UpTo, note.At)
	}
	err := sp.store.Purge(ctx, sp.name, p)
	if errors.Is(err, ErrNotFound) { // the whole space is gone
		return err
	}
	told := Commit{Checks: []Check{note}, Writes: []Write{{Key: erasedKey, Value: []byte("null")}}}
	if err != nil && !errors.Is(err, ErrInvalid) && !errors.Is(err, errors.ErrUnsupported) {
		_, tell := sp.commit(ctx, told)
		return errors.Join(err, unlessGone(tell), sp.deleteSnapshotsOf(ctx, e.Snapshots, note.At))
	}
	if err := errors.Join(sp.deleteSnapshotsOf(ctx, e.Snapshots, note.At), sp.dropAnswers(ctx, note.At)); err != nil {
		return err
	}
	told.Writes = append(told.Writes, Write{Key: note.Key})
	_, tell := sp.commit(ctx, told)
	return errors.Join(err, unlessGone(tell))
}

// unlessGone is nil for a conflict: the note is gone.
func unlessGone(err error) error {
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

// finishErasure is the Expirer of erased/<id>. A record "erased" stays: its version
// must not come again.
func finishErasure(ctx context.Context, sp *Space, rec Record) error {
	if rec.Key == erasedKey {
		_, err := sp.commit(ctx, Commit{Writes: []Write{{Key: erasedKey, Value: []byte("null")}}})
		return err
	}
	var e erasure
	if err := rec.As(&e); err != nil {
		return err
	}
	note := Check{Key: rec.Key, At: rec.Version}
	switch {
	case e.Below != "":
		return sp.deleteRest(ctx, e.Below, note)
	case len(e.Streams)+len(e.Events) == 0: // somebody else's
		return DeleteExpired(ctx, sp, rec)
	}
	return sp.finish(ctx, note, e)
}

// erased returns the version of the record that the last purge wrote.
func (sp *Space) erased(ctx context.Context) (Position, error) {
	recs, err := sp.store.backend.Get(ctx, sp.name, erasedKey)
	if err != nil {
		return Position{}, err
	}
	return recs[0].Version, nil
}
