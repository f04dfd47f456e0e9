package decision

import (
	"context"

	"github.com/thole-dev/thole"
)

// check counts the decisions without an outcome.
func check(ctx context.Context, sp *thole.Space, r *thole.Report) error {
	n := 0
	for _, err := range sp.Records(ctx, open) {
		if err != nil {
			return err
		}
		n++
	}
	if n > 0 {
		r.Note("%d decisions have no outcome; see `thole get %s %s`", n, sp.Name(), open)
	}
	return nil
}
