package thole

import (
	"context"
	"strings"
)

// A snapshot is a disposable record that a concept made of a stream, so that it need
// not read all of it again:
//
//	snap/<stream>/<id>
//
// Streams hold slashes, ids do not; so the key tells the stream, and what erases a
// stream, or an event of it, erases its snapshots and no others. Earlier versions kept
// those of a thread's documents below thread/<id>/snapshot/.

// SnapshotKey returns the key of a snapshot of stream. The id holds no slash.
func SnapshotKey(stream, id string) string { return "snap/" + stream + "/" + id }

// DeleteSnapshots deletes all snapshots of stream, without events.
func (sp *Space) DeleteSnapshots(ctx context.Context, stream string) error {
	ctx = WithoutIdempotencyKey(ctx) // to do it again does no harm
	below := SnapshotKey(stream, "")
	for q := (ListQuery{Prefix: below, Limit: maxBelow}); len(below) <= MaxNameBytes; {
		recs, err := sp.store.backend.List(ctx, sp.name, q)
		if err != nil {
			return err
		}
		var c Commit
		for _, r := range recs {
			if q.After = r.Key; !strings.Contains(r.Key[len(below):], "/") {
				c.Writes = append(c.Writes, Write{Key: r.Key})
			}
		}
		if len(c.Writes) > 0 {
			if _, err := sp.commit(ctx, c); err != nil {
				return err
			}
		}
		if len(recs) < q.Limit {
			break
		}
	}
	if strings.HasPrefix(stream, "thread/") && len(stream)+len("/snapshot/") <= MaxNameBytes {
		return sp.DeleteBelow(ctx, stream+"/snapshot")
	}
	return nil
}

func (sp *Space) deleteSnapshotsOf(ctx context.Context, streams []string) error {
	for _, stream := range streams {
		if err := sp.DeleteSnapshots(ctx, stream); err != nil {
			return err
		}
	}
	return nil
}
