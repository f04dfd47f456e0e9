package document

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/thole-dev/thole"
)

// maxReplay bounds how many changes may follow a snapshot; the size of the changes is
// bounded by the size of the value.
const maxReplay = 500

// replayCost adds patch to the cost of replaying the record's value. A patch that
// replaces everything counts as a snapshot.
func (r *record) replayCost(patch []Operation) {
	if isWhole(patch) {
		r.Changes, r.Bytes = 0, 0
		return
	}
	r.Changes++
	for _, op := range patch {
		r.Bytes += len(op.Path) + len(op.Value) + 32
	}
}

// due reports whether it is time for a snapshot. Because snapshots wait until the
// patches are as large as the value, the stored bytes stay below twice the patches, and
// the bytes that a replay reads below twice the value.
func (r *record) due() bool {
	return r.Changes >= maxReplay || r.Bytes > max(len(r.Value), 4<<10)
}

func isWhole(patch []Operation) bool {
	return len(patch) == 1 && patch[0].Path == "" && patch[0].Op == "replace"
}

// Replay returns a document as of a position by replaying its changes from the journal,
// even if [Documents.Get] would read the record: a check compares the two. Errors:
// *TrimmedError if the changes are not kept; ErrCorrupt if they do not fit together.
func (d *Documents) Replay(ctx context.Context, name string, at thole.Position) (Document, error) {
	p, err := d.place(name)
	if err != nil {
		return Document{}, err
	}
	head, err := d.sp.Head(ctx)
	if err != nil {
		return Document{}, err
	}
	return d.past(ctx, p, at, head)
}

// past returns the document as of at, by replaying the changes since the last snapshot
// before it.
func (d *Documents) past(ctx context.Context, p place, at thole.Position, head thole.Head) (Document, error) {
	next := at
	next.Seq++
	q := thole.ReadQuery{Stream: p.stream, Before: next, Backward: true, Types: []string{TypeChanged}, Limit: 64}
	doc := Document{Name: p.name}
	var patches [][]Operation // newest first
	for e, err := range d.sp.Events(ctx, q) {
		if err != nil {
			return Document{}, err
		}
		if e.Data == nil {
			return Document{}, gone(d.sp.Name(), at, head, "of a document whose history was erased")
		}
		var c Change
		if err := e.As(&c); err != nil {
			return Document{}, err
		}
		if c.Name != p.name {
			continue
		}
		if doc.Version.IsZero() {
			if c.Deleted {
				return doc, nil
			}
			doc.Exists, doc.Version, doc.Updated, doc.Schema = true, e.Position, e.Time, e.Schema
		}
		whole, found, err := d.whole(ctx, p, c)
		if err != nil {
			return Document{}, err
		}
		if !found {
			patches = append(patches, c.Patch)
			continue
		}
		if doc.Value, err = replay(whole, patches); err != nil {
			return Document{}, fmt.Errorf("%w: replay of document %s at %s: %v", thole.ErrCorrupt, p.name, at, err)
		}
		return d.lifted(doc)
	}
	if len(patches) == 0 && head.Oldest.Seq <= 1 {
		return doc, nil // it did not exist yet
	}
	return Document{}, gone(d.sp.Name(), at, head, "older than what is kept of the document")
}

func gone(space string, at thole.Position, head thole.Head, reason string) error {
	return &thole.TrimmedError{Space: space, Cursor: at, Oldest: head.Oldest, Last: head.Last, Reason: reason}
}

// whole returns the value that c led to, if there is a snapshot of it.
func (d *Documents) whole(ctx context.Context, p place, c Change) (json.RawMessage, bool, error) {
	if isWhole(c.Patch) {
		return c.Patch[0].Value, true, nil
	}
	if c.Snapshot == "" {
		return nil, false, nil
	}
	rec, err := d.sp.Get(ctx, thole.SnapshotKey(p.stream, c.Snapshot))
	if err == nil && !rec.Exists() && d.owner != "" { // earlier versions kept snapshots below the owner
		rec, err = d.sp.Get(ctx, d.owner+"/snapshot/"+p.key[len(d.base)+1:]+"/"+c.Snapshot)
	}
	return rec.Value, rec.Exists(), err
}

func replay(whole json.RawMessage, newestFirst [][]Operation) (json.RawMessage, error) {
	value, err := parse("value", whole)
	if err != nil {
		return nil, err
	}
	for _, ops := range slices.Backward(newestFirst) {
		if value, err = patch(value, ops, false); err != nil {
			return nil, err
		}
	}
	return encode(value)
}

// Diff returns the patch that leads from the document as of one position to the
// document as of another; to zero: now. A version that does not exist counts as null.
func (d *Documents) Diff(ctx context.Context, name string, from, to thole.Position) ([]Operation, error) {
	var trees [2]any
	for i, at := range []thole.Position{from, to} {
		doc, err := d.Get(ctx, name, &GetOptions{At: at})
		if err != nil {
			return nil, err
		}
		if doc.Exists {
			if trees[i], err = parse("value", doc.Value); err != nil {
				return nil, err
			}
		}
	}
	return diff(trees[0], trees[1]), nil
}
