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
	return sp.deleteSnapshots(ctx, stream, Position{})
}

// deleteSnapshots deletes the snapshots of stream that were made up to a position; zero:
// all.
func (sp *Space) deleteSnapshots(ctx context.Context, stream string, upTo Position) error {
	if below := SnapshotKey(stream, ""); len(below) <= MaxNameBytes {
		own := func(r Record) bool { return !strings.Contains(r.Key[len(below):], "/") }
		if err := sp.deleteSeen(ctx, below, upTo, own); err != nil {
			return err
		}
	}
	if below := stream + "/snapshot/"; strings.HasPrefix(stream, "thread/") && len(below) <= MaxNameBytes {
		return sp.deleteSeen(ctx, below, upTo, nil)
	}
	return nil
}

func (sp *Space) deleteSnapshotsOf(ctx context.Context, streams []string, upTo Position) error {
	for _, stream := range streams {
		if err := sp.deleteSnapshots(ctx, stream, upTo); err != nil {
			return err
		}
	}
	return nil
}
