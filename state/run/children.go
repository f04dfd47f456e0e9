package run

import (
	"context"
	"fmt"
	"strings"
)

// Children returns the sub-agents' runs that a run started, in the order of their
// ids, which is the order of their creation. Like [Runs.Get] it ends those whose
// lease has run out. The result is empty for an unknown run. A run that cannot be read is
// ErrCorrupt, because callers act on what they find.
func (rs *Runs) Children(ctx context.Context, id string) ([]*Run, error) {
	prefix := key(id) + "/child/"
	children := []*Run{}
	for rec, err := range rs.sp.Records(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("children of run %s: %w", id, err)
		}
		r, err := rs.Get(ctx, strings.TrimPrefix(rec.Key, prefix))
		if err != nil {
			return nil, err
		}
		children = append(children, r)
	}
	return children, nil
}
