package run

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

type signal struct {
	Data json.RawMessage `json:"data,omitempty"`
}

func signalKey(id, name string) string { return key(id) + "/signal/" + url.PathEscape(name) }

// Signal gives a run something that it waits for, or will: an approval, an
// answer. It is kept until the run takes it; a later one of the same name
// replaces it. A run that waits for it goes on. It emits run.signalled. Errors:
// ErrNotFound; ErrConflict when the run has ended; ErrInvalid.
func (rs *Runs) Signal(ctx context.Context, id, name string, data json.RawMessage) error {
	if name == "" {
		return fmt.Errorf("signal run %s: %w: it has no name", id, thole.ErrInvalid)
	}
	_, err := rs.sp.Update(ctx, func(tx *thole.Tx) error {
		r, err := load(tx, id)
		if err != nil {
			return err
		}
		if r.Ended() {
			return fmt.Errorf("%w: it is %s", thole.ErrConflict, r.Status)
		}
		tx.Put(signalKey(id, name), signal{Data: data}, nil)
		if r.WaitingFor == name {
			if err := r.wake(tx); err != nil {
				return err
			}
		}
		r.emit(tx, "run.signalled", Event{Signal: name, Status: r.Status})
		return nil
	})
	if err != nil {
		return fmt.Errorf("signal run %s: %w", id, err)
	}
	return nil
}

// wake makes a waiting run run again.
func (r *Run) wake(tx *thole.Tx) error {
	r.Status, r.WaitingFor = Running, ""
	r.put(tx)
	return thread.SetActive(tx, r.Thread, r.ID, thread.Busy)
}

// Wait makes the run wait for the signal of the given name and returns its
// data; one that came already is taken at once. While it waits the run and its
// thread have status waiting. Errors: *CancelledError when the run is to end,
// ctx's, those of the commit.
func (h *Handle) Wait(ctx context.Context, name string) (json.RawMessage, error) {
	if name == "" {
		return nil, fmt.Errorf("run %s: %w: a signal has a name", h.id, thole.ErrInvalid)
	}
	w, err := h.sp.Watch(ctx, &thole.WatchOptions{Streams: []string{thread.Key(h.thread)}, Types: []string{"run.*"}, Durable: true})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		// Not cut off half-way: a signal that was taken must be returned.
		data, ok, err := h.receive(context.WithoutCancel(ctx), name)
		if ok || err != nil {
			return data, err
		}
		if err := news(ctx, w); err != nil {
			return nil, err
		}
	}
}

// receive takes the signal if it is there and else makes the run wait for it.
func (h *Handle) receive(ctx context.Context, name string) (data json.RawMessage, ok bool, err error) {
	_, err = h.write(ctx, goesOn, func(tx *thole.Tx) error {
		r, err := h.unless(tx)
		if err != nil {
			return err
		}
		var s signal
		if ok, err = tx.Load(signalKey(h.id, name), &s); err != nil {
			return err
		}
		switch {
		case ok:
			data = s.Data
			tx.Delete(signalKey(h.id, name))
			if r.Status == Waiting {
				return r.wake(tx)
			}
		case r.WaitingFor != name:
			r.Status, r.WaitingFor = Waiting, name
			r.put(tx)
			r.emit(tx, "run.waiting", Event{Signal: name})
			return thread.SetActive(tx, r.Thread, r.ID, thread.Waiting)
		}
		return nil
	})
	return data, ok, err
}
