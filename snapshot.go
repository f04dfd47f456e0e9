package thole

import (
	"context"
	"strings"
)

// A snapshot is a disposable record that a concept computes from a stream, so that it
// does not have to read the whole stream again:
//
//	snap/<stream>/<id>
//
// Streams may have slashes, ids have none, so the key determines the stream: erasing a
// stream, or an event in it, erases that stream's snapshots and no others. Earlier
// versions kept the snapshots of a thread's documents below thread/<id>/snapshot/.

// SnapshotKey returns the key of a snapshot of stream. The id must not have a slash.
func SnapshotKey(stream, id string) string { return "snap/" + stream + "/" + id }

// DeleteSnapshots deletes all snapshots of stream, without events.
func (sp *Space) DeleteSnapshots(ctx context.Context, stream string) error {
	return sp.deleteSnapshots(ctx, stream, Position{})
}

// deleteSnapshots deletes the snapshots of stream that were written up to a position;
// zero: all.
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
