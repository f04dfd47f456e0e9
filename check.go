package thole

import (
	"context"
	"time"
)

// checkKernel is the Check of the kernel's records.
func checkKernel(ctx context.Context, sp *Space, r *Report) error {
	for rec, err := range sp.Records(ctx, "outbox/") {
		if err != nil {
			return err
		}
		r.Note("a commit to another space waits for its delivery since %s (%s)", rec.Updated.Local().Format(time.DateTime), rec.Key)
	}
	return sp.checkChunks(ctx, r)
}

// checkChunks reports chunks that neither a blob nor an upload lists.
func (sp *Space) checkChunks(ctx context.Context, r *Report) error {
	loose, bytes := make(map[string]int), 0
	for rec, err := range sp.Records(ctx, "chunk/") {
		if err != nil {
			return err
		}
		loose[rec.Key[len("chunk/"):]] = len(rec.Value)
	}
	if len(loose) == 0 {
		return nil
	}
	for _, prefix := range []string{uploadKey + "/", "blob/"} { // see dropChunks
		err := sp.lists(ctx, prefix, func(_ string, chunks []string) {
			for _, name := range chunks {
				delete(loose, name)
			}
		})
		if err != nil {
			return err
		}
	}
	for _, n := range loose {
		bytes += n
	}
	if len(loose) > 0 {
		r.Note("%d chunks (%d bytes) belong to no blob: an earlier version kept them of uploads that failed", len(loose), bytes)
	}
	return nil
}
