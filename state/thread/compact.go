package thread

import (
	"context"
	"fmt"

	"github.com/thole-dev/thole"
)

// Compact replaces the turns up to and including upTo, which must have ended, by
// summary: a page that reaches back to them shows one summary block instead. They stay
// on older pages and in the journal. It emits thread.compacted. Errors: ErrNotFound for
// a missing thread or turn; ErrConflict for a turn that has not ended; ErrInvalid for
// an empty summary.
func (ts *Threads) Compact(ctx context.Context, id, upTo, summary string) error {
	ctx = thole.Call(ctx, "thread.compact", id)
	fail := func(err error) error { return fmt.Errorf("compact thread %s: %w", id, err) }
	b := Block{ID: thole.NewID("blk"), Type: Summary, Content: summary}
	if err := b.check(); err != nil {
		return fail(err)
	}
	if summary == "" {
		return fail(fmt.Errorf("%w: the summary is empty", thole.ErrInvalid))
	}
	_, _, err := thole.Do(ctx, ts.sp, func(ctx context.Context) (none struct{}, r thole.Receipt, err error) {
		if err := ts.hasTurn(ctx, id, upTo); err != nil {
			return none, r, err
		}
		_, err = ts.sp.Update(ctx, func(tx *thole.Tx) error {
			t, err := Load(tx, id)
			if err != nil {
				return err
			}
			if t.LastTurn == upTo && t.TurnStatus != "" {
				return fmt.Errorf("%w: turn %s has not ended", thole.ErrConflict, upTo)
			}
			t.put(tx)
			tx.Emit(Key(id), "thread.compacted", Compacted{UpTo: upTo, Summary: b})
			return nil
		})
		return none, r, err
	})
	if err != nil {
		return fail(err)
	}
	return nil
}

// hasTurn pages back through the thread until it finds the turn; ErrNotFound if there is
// none.
func (ts *Threads) hasTurn(ctx context.Context, id, turn string) error {
	if err := thole.CheckID("turn", turn); err != nil {
		return err
	}
	for q := (Query{Last: 200}); ; {
		page, err := ts.Turns(ctx, id, &q)
		if err != nil {
			return err
		}
		for _, t := range page.Items {
			if t.ID == turn {
				return nil
			}
		}
		if page.Next == "" {
			return fmt.Errorf("turn %s: %w", turn, thole.ErrNotFound)
		}
		q.Cursor = page.Next
	}
}
