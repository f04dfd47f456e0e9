package decision

import (
	"context"
	"iter"
)

// All iterates over the decisions that [Decisions.List] returns, page after page. After an
// error of the store it yields the error and ends. Unlike List it also ends, with
// ErrCorrupt, at a decision that cannot be read.
func (d *Decisions) All(ctx context.Context, opts ListOptions) iter.Seq2[Decision, error] {
	return func(yield func(Decision, error) bool) {
		for {
			page, err := d.list(ctx, &opts, none)
			if err != nil {
				yield(Decision{}, err)
				return
			}
			for _, dec := range page.Items {
				if !yield(dec, nil) {
					return
				}
			}
			if opts.After = page.Next; page.Next == "" {
				return
			}
		}
	}
}
