package document

import (
	"context"
	"errors"
	"strings"

	"github.com/thole-dev/thole"
)

// check reports documents that differ from the result of their events.
func check(ctx context.Context, sp *thole.Space, r *thole.Report) error {
	for rec, err := range sp.Records(ctx, "document/") {
		if err != nil {
			return err
		}
		name, err := thole.UnescapeName(strings.TrimPrefix(rec.Key, "document/"))
		if err != nil {
			r.Problem("record %s does not name a document: %v", rec.Key, err)
			continue
		}
		In(sp).replay(ctx, r, name, rec)
	}
	for rec, err := range sp.Records(ctx, "thread/") {
		if err != nil {
			return err
		}
		if owner, ok := strings.CutSuffix(rec.Key, "/state"); ok && strings.Count(owner, "/") == 1 {
			Under(sp, owner, owner).replay(ctx, r, "state", rec)
		}
	}
	return nil
}

// replay compares a document with the result of its events.
func (d *Documents) replay(ctx context.Context, r *thole.Report, name string, rec thole.Record) {
	now, err := d.Get(ctx, name, nil)
	if err != nil {
		r.Problem("document %s: %v", name, err)
		return
	}
	past, err := d.Replay(ctx, name, rec.Version)
	switch {
	case errors.Is(err, thole.ErrTrimmed):
		return // its earlier events were purged
	case err != nil:
		r.Problem("document %s at %s: %v", name, rec.Version, err)
	case now.Version == rec.Version && (past.Version != rec.Version || !Equal(now.Value, past.Value)):
		r.Problem("document %s is not what its events add up to at %s", name, rec.Version)
	}
}
