// Package document keeps named JSON documents with versions: settings, thread
// state, integrations, whatever several sides change a field of. Changes are
// made to the document as it is at that moment and recorded as patches, so
// nobody writes a whole document back to change one field, and every past
// version can be read again.
//
// Record document/<name> holds the value. Each change is an event
// document.changed in stream document/<name> whose patch (RFC 6902) leads from
// the version before to the new one. Every so often the whole value is kept as
// well, in a snapshot of the stream (see [thole.SnapshotKey]), so that reading an
// old version costs about one document however long its history is:
//
//	changed    changed  changed  changed      changed  changed
//	= value ── patch ── patch ── patch+snap ── patch ── patch    ← the record is here
//	                                  │           ↑
//	                              snap ── patch  = value at ↑
package document

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// TypeChanged is the type of this package's events; they hold a [Change].
const TypeChanged = "document.changed"

// Document is one version of a document.
type Document struct {
	Name    string          `json:"name"`
	Exists  bool            `json:"exists"`
	Value   json.RawMessage `json:"value,omitempty"`
	Version thole.Position  `json:"version"` // zero: there is no document
	Schema  int             `json:"schema,omitempty"`
	Updated time.Time       `json:"updated_at,omitzero"`
}

// As decodes the document's value into v; it does nothing if there is no document. Errors:
// ErrCorrupt if the value does not fit v.
func (d Document) As(v any) error {
	if !d.Exists {
		return nil
	}
	return journal.Decode("document "+d.Name, d.Value, v)
}

// Change is the data of the event document.changed.
type Change struct {
	Name     string         `json:"name"`
	Previous thole.Position `json:"previous"` // the version that the patch applies to; zero: there was no document
	Patch    []Operation    `json:"patch,omitempty"`
	Deleted  bool           `json:"deleted,omitempty"`
	Snapshot string         `json:"snapshot,omitempty"` // the id of a snapshot that holds the result
}

// record is the value of a document's record.
type record struct {
	Value json.RawMessage `json:"value"`
	// What a read of an earlier version would have to replay up to here.
	Changes int `json:"changes"`
	Bytes   int `json:"bytes"`
}

// Documents are the documents of one space, or those under one of its records.
type Documents struct {
	sp     *thole.Space
	base   string // the key of a document is base/<name>
	stream string // "": a stream for each document, named like its key
	owner  string // "", or the key of the record without which there are no documents
	shapes map[string]Shape
}

// In returns the documents of sp, whose store must have been given [Concept].
func In(sp *thole.Space) *Documents { return &Documents{sp: sp.For(Name), base: "document"} }

// Under returns the documents that belong to the record under key, such as
// "thread/<id>". Document x is the record <key>/x, and its changes go to stream. If the
// owning record does not exist, all operations return ErrNotFound. Deleting that record
// must delete the documents too.
func Under(sp *thole.Space, key, stream string) *Documents {
	return &Documents{sp: sp.For(Name), base: key, stream: stream, owner: key}
}

// With returns the same documents; those named in shapes have a schema and migrations.
func (d *Documents) With(shapes map[string]Shape) *Documents {
	c := *d
	c.shapes = shapes
	return &c
}

// place is where one document is kept.
type place struct{ name, key, stream string }

func (d *Documents) place(name string) (place, error) {
	if name == "" {
		return place{}, fmt.Errorf("%w: a document needs a name", thole.ErrInvalid)
	}
	escaped := "/" + url.PathEscape(name)
	p := place{name: name, key: d.base + escaped, stream: d.stream}
	if p.stream == "" {
		p.stream = p.key
	}
	return p, nil
}

// kind is the kind of the documents' names, which is checked when a document is
// created.
func (d *Documents) kind() thole.NameKind {
	key := d.base + "/*"
	if d.stream != "" {
		return thole.NameKind{What: "document", Keys: []string{key}}
	}
	return thole.NameKind{What: "document", Keys: []string{thole.SnapshotKey(key, thole.NewID("snap"))}}
}

// GetOptions are options of [Documents.Get]. The zero value reads the current version.
type GetOptions struct {
	At thole.Position // as of this position; zero: now
}

// Get returns a document, by default its current version. An absent document is not an
// error. Errors: *TrimmedError for a position that is no longer kept.
func (d *Documents) Get(ctx context.Context, name string, opts *GetOptions) (Document, error) {
	p, err := d.place(name)
	if err != nil {
		return Document{}, err
	}
	rec, err := d.read(ctx, p)
	if err != nil {
		return Document{}, err
	}
	if opts != nil && !opts.At.IsZero() {
		head, err := d.sp.Head(ctx)
		if err != nil {
			return Document{}, err
		}
		if err := head.Resume(opts.At); err != nil {
			return Document{}, fmt.Errorf("document %s: %w", name, err)
		}
		if !rec.Exists() || rec.Version.Compare(opts.At) > 0 {
			return d.past(ctx, p, opts.At, head)
		}
	}
	if !rec.Exists() {
		return Document{Name: name}, nil
	}
	var r record
	if err := rec.As(&r); err != nil {
		return Document{}, err
	}
	return d.lifted(Document{Name: name, Exists: true, Value: r.Value, Version: rec.Version, Schema: rec.Schema, Updated: rec.Updated})
}

// read returns a document's record, after it has checked that the owner exists.
func (d *Documents) read(ctx context.Context, p place) (thole.Record, error) {
	if d.owner == "" {
		return d.sp.Get(ctx, p.key)
	}
	recs, err := d.sp.GetAll(ctx, p.key, d.owner)
	if err != nil {
		return thole.Record{}, err
	}
	if !recs[1].Exists() {
		return thole.Record{}, fmt.Errorf("%s: %w", d.owner, thole.ErrNotFound)
	}
	return recs[0], nil
}

// lifted returns doc migrated to its shape's version.
func (d *Documents) lifted(doc Document) (Document, error) {
	shape, ok := d.shapes[doc.Name]
	if !ok {
		return doc, nil
	}
	var err error
	doc.Value, doc.Schema, err = shape.lift(doc.Value, doc.Schema)
	if err != nil {
		return doc, fmt.Errorf("document %s: %w", doc.Name, err)
	}
	return doc, nil
}

// Info describes a document in a listing.
type Info struct {
	Name    string         `json:"name"`
	Version thole.Position `json:"version"`
	Schema  int            `json:"schema,omitempty"`
	Updated time.Time      `json:"updated_at"`
	Bytes   int            `json:"bytes"` // about the size of the value
}

// ListOptions are options of [Documents.List].
type ListOptions struct {
	After string // names after this one: the Next of the page before
	Limit int    // 1…1,000; 0: 1,000
}

// List returns the space's documents, without their values, in the byte order
// of their escaped names. Documents under a record are not listed:
// errors.ErrUnsupported.
func (d *Documents) List(ctx context.Context, opts *ListOptions) (thole.PageOf[Info], error) {
	if d.owner != "" {
		return thole.PageOf[Info]{}, fmt.Errorf("list documents under %s: %w", d.owner, errors.ErrUnsupported)
	}
	var o ListOptions
	if opts != nil {
		o = *opts
	}
	list, next, err := d.sp.ListByName(ctx, d.base+"/", o.After, o.Limit)
	if err != nil {
		return thole.PageOf[Info]{}, err
	}
	page := thole.PageOf[Info]{Next: next}
	for _, rec := range list {
		page.Items = append(page.Items, Info{Name: rec.Name, Version: rec.Version, Schema: rec.Schema, Updated: rec.Updated, Bytes: len(rec.Value)})
	}
	return page, nil
}
