package document

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/thole-dev/thole"
)

// Options are conditions of a change. The zero value has no conditions.
type Options struct {
	IfMatch  thole.Position // only if this is the version; zero: any
	IfExists bool           // only if the document exists
	IfAbsent bool           // only if the document does not exist
}

// All changes are atomic, return the changed document, and commit nothing if they
// change nothing. Errors: *ConflictError, with the current version, if a condition does
// not hold; ErrInvalid; ErrTooLarge; those of [thole.Space.Update].

// Put replaces the whole document; only the difference is recorded.
func (d *Documents) Put(ctx context.Context, name string, value any, opts *Options) (Document, error) {
	raw, err := encode(value)
	if err != nil {
		return Document{}, err
	}
	return d.Update(ctx, name, opts, func(json.RawMessage) (json.RawMessage, error) { return raw, nil })
}

// MergePatch changes the document by a merge patch (RFC 7396). A document that does not
// exist begins empty.
func (d *Documents) MergePatch(ctx context.Context, name string, patch json.RawMessage, opts *Options) (Document, error) {
	if _, err := decode("merge patch", patch); err != nil {
		return Document{}, err
	}
	return d.change(ctx, name, opts, func(was any, _ bool) (any, error) {
		p, err := decode("merge patch", patch) // decode again: the result shares parts with the patch
		return merge(was, p), err
	})
}

// JSONPatch changes the document by a JSON Patch (RFC 6902), completely or not at all.
// Errors, besides those above: ErrConflict if a test of the patch fails, ErrInvalid if
// the patch cannot be applied, ErrNotFound if there is no document.
func (d *Documents) JSONPatch(ctx context.Context, name string, raw json.RawMessage, opts *Options) (Document, error) {
	ops, err := parsePatch(raw)
	if err != nil {
		return Document{}, err
	}
	return d.change(ctx, name, opts, func(was any, exists bool) (any, error) {
		if !exists {
			return nil, thole.ErrNotFound
		}
		return patch(was, ops, false)
	})
}

// Apply changes the document by ops, in order, completely or not at all. A document
// that does not exist begins as an empty object, unless the first op is on the whole
// document, which it makes a number or a list.
func (d *Documents) Apply(ctx context.Context, name string, ops []Op, opts *Options) (Document, error) {
	return d.change(ctx, name, opts, func(was any, exists bool) (any, error) {
		if !exists && len(ops) == 0 {
			return map[string]any{}, nil
		}
		var err error
		for _, op := range ops {
			if was, err = op.apply(was, exists); err != nil {
				return nil, err
			}
			exists = true
		}
		return was, nil
	})
}

// Update sets the document to what edit returns for its current value, which is nil if
// there is none. If another change comes first, edit runs again, so it must have no
// other effect. If edit returns an error, so does Update, and nothing is changed.
func (d *Documents) Update(ctx context.Context, name string, opts *Options, edit func(json.RawMessage) (json.RawMessage, error)) (Document, error) {
	return d.change(ctx, name, opts, func(was any, exists bool) (any, error) {
		var raw json.RawMessage
		var err error
		if exists {
			if raw, err = encode(was); err != nil {
				return nil, err
			}
		}
		if raw, err = edit(raw); err != nil {
			return nil, err
		}
		return decode("value", raw)
	})
}

// Edit is Update for a document that is decoded into a T. Only what edit changes in the
// T changes in the document: members that T does not have stay as they are.
func Edit[T any](ctx context.Context, d *Documents, name string, opts *Options, edit func(*T) error) (Document, error) {
	return d.change(ctx, name, opts, func(was any, exists bool) (any, error) {
		var v T
		if exists {
			raw, err := encode(was)
			if err != nil {
				return nil, err
			}
			if err := json.Unmarshal(raw, &v); err != nil {
				return nil, fmt.Errorf("%w: it does not read into %T: %v", thole.ErrInvalid, v, err)
			}
		}
		before, err := treeOf(v)
		if err != nil {
			return nil, err
		}
		if err := edit(&v); err != nil {
			return nil, err
		}
		after, err := treeOf(v)
		if err != nil || !exists {
			return after, err
		}
		return patch(was, diff(before, after), true)
	})
}

// Delete removes the document and reports whether it existed. Its earlier versions can
// still be read.
func (d *Documents) Delete(ctx context.Context, name string, opts *Options) (bool, error) {
	p, err := d.place(name)
	if err != nil {
		return false, err
	}
	ctx = thole.Call(ctx, "document.delete", p.key)
	ctx = thole.Reread(ctx, func(ctx context.Context, _ []thole.Event) (bool, error) {
		return true, nil
	})
	existed, _, err := thole.Update(ctx, d.sp, func(tx *thole.Tx) (bool, error) {
		rec, err := d.open(tx, p, opts)
		if err != nil || !rec.Exists() {
			return false, err
		}
		tx.Delete(p.key)
		tx.Emit(p.stream, TypeChanged, Change{Name: name, Previous: rec.Version, Deleted: true})
		return true, nil
	})
	if err != nil {
		return false, fmt.Errorf("delete document %s: %w", name, err)
	}
	return existed, nil
}

// open reads the record to be changed and checks the conditions.
func (d *Documents) open(tx *thole.Tx, p place, opts *Options) (thole.Record, error) {
	if d.owner != "" {
		owner, err := tx.Get(d.owner)
		if err != nil {
			return owner, err
		}
		if !owner.Exists() {
			return owner, fmt.Errorf("%s: %w", d.owner, thole.ErrNotFound)
		}
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	return tx.Require(p.key, thole.Condition{At: o.IfMatch, Exists: o.IfExists, Absent: o.IfAbsent})
}

// change commits the value that edit makes from the document's value, which edit may
// change in place.
func (d *Documents) change(ctx context.Context, name string, opts *Options, edit func(was any, exists bool) (any, error)) (Document, error) {
	p, err := d.place(name)
	if err != nil {
		return Document{}, err
	}
	ctx = thole.Call(ctx, "document.change", p.key)
	ctx = thole.Reread(ctx, func(ctx context.Context, events []thole.Event) (Document, error) {
		if len(events) == 0 {
			return d.Get(ctx, name, nil)
		}
		return d.Get(ctx, name, &GetOptions{At: events[len(events)-1].Position})
	})
	doc, r, err := thole.Update(ctx, d.sp, func(tx *thole.Tx) (Document, error) { return d.changeIn(tx, p, opts, edit) })
	if err != nil {
		return Document{}, fmt.Errorf("document %s: %w", name, err)
	}
	if !r.First.IsZero() {
		doc.Version = r.Last
	}
	return doc, nil
}

func (d *Documents) changeIn(tx *thole.Tx, p place, opts *Options, edit func(was any, exists bool) (any, error)) (Document, error) {
	rec, err := d.open(tx, p, opts)
	if err != nil {
		return Document{}, err
	}
	var r record
	var before, value any
	exists := rec.Exists()
	if !exists {
		if err := d.kind().Check(p.name); err != nil {
			return Document{}, err
		}
	} else {
		if err := rec.As(&r); err != nil {
			return Document{}, err
		}
		if before, err = parse("value", r.Value); err != nil {
			return Document{}, err
		}
		lifted, err := d.lifted(Document{Name: p.name, Value: r.Value, Schema: rec.Schema})
		if err != nil {
			return Document{}, err
		}
		if value, err = parse("value", lifted.Value); err != nil {
			return Document{}, err
		}
	}
	after, err := edit(value, exists)
	if err != nil {
		return Document{}, err
	}
	schema, err := d.fit(p.name, after, rec.Schema)
	if err != nil {
		return Document{}, err
	}
	raw, err := encode(after)
	if err != nil {
		return Document{}, err
	}
	doc := Document{Name: p.name, Exists: true, Value: raw, Schema: schema, Version: rec.Version, Updated: rec.Updated}
	c := Change{Name: p.name, Previous: rec.Version, Patch: replaceAll(raw)}
	if exists {
		c.Patch = smaller(diff(before, after), c.Patch)
		if len(c.Patch) == 0 && schema == rec.Schema {
			return doc, nil
		}
	}
	r.Value = raw
	if r.replayCost(c.Patch); r.due() {
		c.Snapshot = thole.NewID("snap")
		tx.Put(thole.SnapshotKey(p.stream, c.Snapshot), raw, &thole.WriteOptions{Schema: schema})
		r.Changes, r.Bytes = 0, 0
	}
	tx.Put(p.key, r, &thole.WriteOptions{Schema: schema})
	tx.Emit(p.stream, TypeChanged, c).Schema = schema
	doc.Updated = tx.Now()
	return doc, nil
}
