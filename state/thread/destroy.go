package thread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/thole-dev/thole"
)

// DestroyOptions of [Threads.Destroy].
type DestroyOptions struct {
	IfMatch thole.Position // the head's version must be this; zero: any
}

// Bounds of what one commit deletes and its event tells, as for expiry.
const (
	maxBelow      = 200
	maxBelowBytes = 256 << 10
)

// Destroy deletes the thread and all records below it, with those of its
// sub-agents' threads. Its event thread.destroyed carries the final state in
// the shape of thole.Expired, as thread.expired does when a ttl runs out. The
// events stay in the journal. A run that is active finds its thread gone and
// ends; those that wait are cancelled when it does, or when a worker or a reader
// comes upon them. Errors: ErrNotFound; *ConflictError when IfMatch does not hold.
func (ts *Threads) Destroy(ctx context.Context, id string, opts *DestroyOptions) error {
	var children []string
	more := false
	res, err := ts.sp.Update(ctx, func(tx *thole.Tx) error {
		children = nil
		if opts != nil {
			ifMatch(tx, id, opts.IfMatch)
		}
		if _, err := Load(tx, id); err != nil {
			return err
		}
		head, err := tx.Get(Key(id))
		if err != nil {
			return err
		}
		below, err := tx.List(thole.ListQuery{Prefix: Key(id) + "/", Limit: maxBelow})
		if err != nil {
			return err
		}
		final := thole.Expired{Key: Key(id), Value: head.Value, Below: make(map[string]json.RawMessage)}
		size := 0
		for _, r := range below {
			tx.Delete(r.Key)
			name := strings.TrimPrefix(r.Key, Key(id)+"/")
			if child, ok := strings.CutPrefix(name, "child/"); ok {
				children = append(children, child)
			}
			if size += len(r.Key) + len(r.Value); size < maxBelowBytes {
				final.Below[name] = r.Value
			}
		}
		tx.Delete(Key(id))
		tx.Emit(Key(id), "thread.destroyed", final)
		more = len(below) == maxBelow
		return nil
	})
	if err != nil {
		return fmt.Errorf("destroy thread %s: %w", id, err)
	}
	ctx = thole.WithoutIdempotencyKey(ctx)
	if res.Repeated { // the first call may not have come further
		if children, err = ts.destroyed(ctx, id, res); err != nil {
			return err
		}
		more = true
	}
	if more {
		for r, err := range ts.sp.Records(ctx, Key(id)+"/child/") {
			if err != nil {
				return err
			}
			children = append(children, strings.TrimPrefix(r.Key, Key(id)+"/child/"))
		}
		if err := ts.sp.DeleteBelow(ctx, Key(id)); err != nil {
			return err
		}
	}
	for _, child := range children {
		if err := ts.Destroy(ctx, child, nil); err != nil && !errors.Is(err, thole.ErrNotFound) {
			return err
		}
	}
	return nil
}

// destroyed returns the sub-agents' threads that went with the thread in an
// earlier call, as far as its event tells.
func (ts *Threads) destroyed(ctx context.Context, id string, res thole.Result) (children []string, _ error) {
	events, err := ts.sp.Repeat(ctx, res)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		var final thole.Expired
		if e.Type != "thread.destroyed" || e.Stream != Key(id) || e.Data == nil {
			continue
		}
		if err := e.As(&final); err != nil {
			return nil, err
		}
		for name := range final.Below {
			if child, ok := strings.CutPrefix(name, "child/"); ok {
				children = append(children, child)
			}
		}
	}
	return children, nil
}
