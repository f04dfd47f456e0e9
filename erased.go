package thole

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// erasedKey is a record that every purge of streams or events writes when it begins and
// when it has removed them. From its version every Store on the backend knows whether
// its memory of a space is older than the last purge: a Projection compares it on every
// use, the fan-out when a watch begins and when it catches up with the journal.
//
//	erased        null
//	erased/<id>   an erasure that goes on, or an end of a record with more below it than
//	              one commit can hold; expires soon
//
// If the process dies or the backend fails, a sweep repeats the whole erasure. That is
// harmless: it removes only what is not newer than the version of its note, the record
// erased/<id>, and only from the space that has the note.
const (
	erasedKey  = "erased"
	erasureTTL = 10 * time.Second // until then the process that began it works on it
)

// erasurePart bounds the streams or events of one erasure, so that they fit into its
// record.
const erasurePart = 500

// erasure is a purge of streams or events, and of what depends on them.
type erasure struct {
	Streams   []string   `json:"streams,omitempty"`
	UpTo      Position   `json:"up_to,omitzero"` // for Streams; zero: the note's version
	Events    []Position `json:"events,omitempty"`
	Snapshots []string   `json:"snapshots,omitempty"` // the streams whose snapshots are deleted
	Below     string     `json:"below,omitempty"`     // not a purge: delete what is left below this ended record
}

// erase purges streams or events in parts.
func (sp *Space) erase(ctx context.Context, p Purge) error {
	head, err := sp.Head(ctx)
	if err != nil {
		return err
	}
	if head.Last.IsZero() { // a commit would create the space
		return fmt.Errorf("%s: %w", sp.name, ErrNotFound)
	}
	if p.Through(head) == 0 {
		return nil
	}
	plain := *sp // finish what has begun, even if the lease is lost meanwhile
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

// streamsOf returns the streams of the events at these positions, ignoring those that
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

// begin writes the note of the erasure, then executes it.
func (sp *Space) begin(ctx context.Context, e erasure) error {
	value, err := marshal(e)
	if err != nil {
		return err
	}
	note := erasedKey + "/" + NewID("ers")
	then, now := *sp, sp.time()
	then.asOf = &now // with this time the note never expires for the commits below, however long the purge takes
	res, err := then.commit(ctx, Commit{Writes: []Write{
		{Key: erasedKey, Value: []byte("null")},
		{Key: note, Value: value, Expires: now.Add(erasureTTL)},
	}})
	if err != nil {
		return err
	}
	return then.finish(ctx, Check{Key: note, At: res.Last}, e)
}

// finish executes the erasure of the note, which may have been executed in part. It
// invalidates what any process has kept in memory until now, and deletes the snapshots
// and the answers in receipts. After an error that another try may avoid, the note
// stays. If the note does not exist any more, another process has finished the erasure
// or the space was removed, and nothing is left to do.
func (sp *Space) finish(ctx context.Context, note Check, e erasure) error {
	p := Purge{Streams: e.Streams, Events: e.Events}
	if len(p.Streams) > 0 {
		p.UpTo = cmp.Or(e.UpTo, note.At)
	}
	err := sp.store.Purge(ctx, sp.name, p)
	if errors.Is(err, ErrNotFound) { // the whole space was removed
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

// unlessGone returns nil for a conflict, which means that the note was deleted.
func unlessGone(err error) error {
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

// finishErasure is the Expirer of erased/<id>, and of "erased", should that expire. It
// never deletes "erased", whose version must never repeat.
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
	case len(e.Streams)+len(e.Events) == 0: // not an erasure of ours
		return DeleteExpired(ctx, sp, rec)
	}
	return sp.finish(ctx, note, e)
}

// erased returns the version of the record "erased", which the last purge wrote.
func (sp *Space) erased(ctx context.Context) (Position, error) {
	recs, err := sp.store.backend.Get(ctx, sp.name, erasedKey)
	if err != nil {
		return Position{}, err
	}
	return recs[0].Version, nil
}
