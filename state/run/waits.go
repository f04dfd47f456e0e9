package run

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// maxWaits bounds how many names a run waits for at once.
const maxWaits = 64

// wait adds name to the signals that r waits for. Until is when the waiting request
// ends, zero if the worker waits in its own process.
func (r *Run) wait(tx *thole.Tx, name string, until time.Time) error {
	known := slices.Contains(r.Waits, name)
	if known && !r.own.WaitsUntil[name].Before(until) {
		return nil
	}
	if !known {
		if err := signalName.Check(name); err != nil {
			return err
		}
		if len(r.Waits) >= maxWaits {
			return fmt.Errorf("run %s: %w: it waits for %d signals already", r.ID, thole.ErrConflict, len(r.Waits))
		}
		r.Waits = append(r.Waits, name)
		r.emit(tx, "run.waiting", WaitingData{Run: r.ID, Signal: name})
	}
	if !until.IsZero() {
		if r.own.WaitsUntil == nil {
			r.own.WaitsUntil = make(map[string]time.Time)
		}
		r.own.WaitsUntil[name] = until
	}
	began := r.Status != Waiting
	r.Status, r.WaitingFor = Waiting, r.Waits[0]
	if err := r.grow(tx); err != nil || !began {
		return err
	}
	return thread.SetActive(tx, r.Thread, r.ID, thread.Waiting)
}

// stopWaiting writes r without names in its Waits. A waiting run with no Waits left
// becomes running.
func (r *Run) stopWaiting(tx *thole.Tx, names ...string) error {
	r.Waits = slices.DeleteFunc(r.Waits, func(name string) bool { return slices.Contains(names, name) })
	for _, name := range names {
		delete(r.own.WaitsUntil, name)
	}
	if len(r.Waits) > 0 {
		r.WaitingFor = r.Waits[0]
		r.put(tx)
		return nil
	}
	wakes := r.Status == Waiting
	if r.WaitingFor = ""; wakes {
		r.Status = Running
	}
	r.put(tx)
	if !wakes {
		return nil
	}
	return thread.SetActive(tx, r.Thread, r.ID, thread.Busy)
}

// waits counts one handle's calls of [Handle.Wait].
type waits struct {
	mu sync.Mutex
	n  map[string]int // by name; 0: all have returned, but the run's Waits may still have the name
}

// enter counts a call; leave ends it.
func (ws *waits) enter(name string) (leave func()) {
	ws.add(name, 1)
	return func() { ws.add(name, -1) }
}

func (ws *waits) add(name string, n int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.n == nil {
		ws.n = make(map[string]int)
	}
	ws.n[name] += n
}

// left reports whether the last call for some name has returned.
func (ws *waits) left() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, n := range ws.n {
		if n == 0 {
			return true
		}
	}
	return false
}

// over returns the names in r.Waits that no call waits for any more: the calls have
// returned, or were requests whose time has passed.
func (ws *waits) over(r *Run, now time.Time) (names []string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for name, n := range ws.n {
		if n == 0 && !slices.Contains(r.Waits, name) {
			delete(ws.n, name)
		}
	}
	for _, name := range r.Waits {
		n, here := ws.n[name]
		until := r.own.WaitsUntil[name]
		if here && n == 0 || !here && !until.IsZero() && !until.After(now) {
			names = append(names, name)
		}
	}
	return names
}

// lapse removes names from the run's Waits that no call waits for any more. It runs
// with every write, because a run that writes goes on. The caller holds h.commit.
func (h *Handle) lapse(tx *thole.Tx) error {
	if !h.waited && !h.waits.left() {
		return nil
	}
	r, err := load(tx, h.id)
	if err != nil || r.Ended() {
		return err
	}
	names := h.waits.over(r, tx.Now())
	if len(names) == 0 {
		return nil
	}
	if err := r.stopWaiting(tx, names...); err != nil {
		return err
	}
	for _, name := range names {
		r.emit(tx, "run.updated", UpdatedData{Run: r.ID, Signal: name, Status: r.Status})
	}
	return nil
}

// idle makes the run wait for the named signal, unless one has come. Until is that of
// [Run.wait].
func (h *Handle) idle(ctx context.Context, name string, until time.Time) (came bool, err error) {
	came, _, err = write(thole.WithoutIdempotencyKey(ctx), h, goesOn, func(tx *thole.Tx) (bool, error) {
		r, err := h.unless(tx)
		if err != nil {
			return false, err
		}
		at, _, err := r.first(tx, name)
		if err != nil || at != "" {
			return at != "", err
		}
		return false, r.wait(tx, name, until)
	})
	return came, err
}

// leaveTimeout bounds the commit of leave.
const leaveTimeout = 5 * time.Second

// leave records that a request, which would have waited for name until the given time,
// was cut off, so that the run stops waiting as soon as its worker goes on. It changes
// nothing if another request waits longer. Best effort: if it fails, the run waits
// until then.
func (h *Handle) leave(ctx context.Context, name string, until time.Time) {
	ctx, stop := context.WithTimeout(thole.WithoutIdempotencyKey(context.WithoutCancel(ctx)), leaveTimeout)
	defer stop()
	_, _ = h.sp.Update(ctx, func(tx *thole.Tx) error {
		r, err := h.live(tx)
		if err != nil || !r.own.WaitsUntil[name].Equal(until) || !until.After(tx.Now()) {
			return err
		}
		r.own.WaitsUntil[name] = tx.Now()
		r.put(tx)
		return nil
	})
}
