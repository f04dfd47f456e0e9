package decision

import (
	"context"
	"iter"
)

// All iterates over the decisions that [Decisions.List] returns, page after page. After an
// error of the store it yields the error and ends.
func (d *Decisions) All(ctx context.Context, opts ListOptions) iter.Seq2[Decision, error] {
	return func(yield func(Decision, error) bool) {
		for {
			page, err := d.List(ctx, &opts)
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
