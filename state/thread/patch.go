package thread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/thole-dev/thole"
)

// Patch is a change to a thread's head. Nil fields change nothing.
type Patch struct {
	Assistant  *string                    `json:"assistant,omitempty" doc:"the agent that answers in it"`
	Title      *string                    `json:"title,omitempty" names:"shown" example:"Shop, spring"`
	Visibility *string                    `json:"visibility,omitempty" enum:"space|private" doc:"who sees it: all readers of the space, or its owner and admins"`
	TTL        *int64                     `json:"ttl,omitempty" doc:"seconds after its last change until it expires; 0: it does not"`
	Metadata   map[string]json.RawMessage `json:"metadata,omitempty" names:"shown" doc:"a merge patch (RFC 7396): null removes a key"`
}

// PatchOptions of [Threads.Patch].
type PatchOptions struct {
	IfMatch thole.Position // the head's version must be this; zero: any
}

// Patch changes the head, emits thread.updated with the change, and returns the changed
// thread. Errors: ErrNotFound, ErrInvalid, ErrTooLarge, *ConflictError when IfMatch does
// not hold.
func (ts *Threads) Patch(ctx context.Context, id string, p Patch, opts *PatchOptions) (*Thread, error) {
	ctx = thole.Call(ctx, "thread.patch", id)
	ctx = thole.Reread(ctx, func(ctx context.Context, _ []thole.Event) (*Thread, error) {
		return ts.Get(ctx, id)
	})
	// Check only the change: a head of an earlier version may exceed today's limits.
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("patch thread %s: %w", id, err)
	}
	t, r, err := thole.Update(ctx, ts.sp, func(tx *thole.Tx) (*Thread, error) {
		t, err := Load(tx, id)
		if err != nil {
			return nil, err
		}
		if opts != nil {
			if err := Require(tx, id, opts.IfMatch); err != nil {
				return nil, err
			}
		}
		set(&t.Assistant, p.Assistant)
		set(&t.Title, p.Title)
		set(&t.Visibility, p.Visibility)
		set(&t.TTL, p.TTL)
		t.Metadata = merge(t.Metadata, p.Metadata)
		if err := t.check(); err != nil {
			return nil, err
		}
		t.put(tx)
		tx.Emit(Key(id), "thread.updated", p)
		t.Updated = tx.Now()
		return t, nil
	})
	if err != nil {
		return nil, fmt.Errorf("patch thread %s: %w", id, err)
	}
	t.Version = r.Last
	return t, nil
}

func (p *Patch) check() error {
	var assistant, title string
	set(&assistant, p.Assistant)
	set(&title, p.Title)
	return errors.Join(thole.AgentName.CheckOptional(assistant), checkTitle(title))
}

// Require checks within tx that the thread exists and that the version of its head is at;
// zero: any. It does not read the head's value. Errors: ErrNotFound, ErrInvalid for a bad
// id; *ConflictError for another version.
func Require(tx *thole.Tx, id string, at thole.Position) error {
	if err := thole.CheckID("thrd", id); err != nil {
		return err
	}
	head, err := tx.Get(Key(id))
	if err == nil && !head.Exists() {
		err = fmt.Errorf("thread %s: %w", id, thole.ErrNotFound)
	}
	if err == nil {
		_, err = tx.Require(Key(id), thole.Condition{At: at})
	}
	return err
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// merge applies a JSON merge patch (RFC 7396) to an object.
func merge(object, patch map[string]json.RawMessage) map[string]json.RawMessage {
	if len(patch) == 0 {
		return object
	}
	out := make(map[string]json.RawMessage, len(object)+len(patch))
	for k, v := range object {
		out[k] = v
	}
	for k, v := range patch {
		var inner map[string]json.RawMessage
		switch {
		case string(v) == "null":
			delete(out, k)
		case json.Unmarshal(v, &inner) != nil:
			out[k] = v
		default:
			var old map[string]json.RawMessage
			_ = json.Unmarshal(out[k], &old) // anything but an object is replaced
			merged, err := json.Marshal(withoutNil(merge(old, inner)))
			if err != nil {
				continue // two decoded objects: cannot fail
			}
			out[k] = merged
		}
	}
	return out
}

// withoutNil keeps an empty object an object rather than null.
func withoutNil(m map[string]json.RawMessage) map[string]json.RawMessage {
	if m == nil {
		return map[string]json.RawMessage{}
	}
	return m
}
