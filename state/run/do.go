package run

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// endTimeout bounds the attempts to commit a cancel, and to commit the end of a run
// after its function returned.
const endTimeout = 30 * time.Second

// PanicError reports that a run's function panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Do starts a run, waits until no other run is active in its slot, and calls fn to do
// the work: see [Handle.Do]. No other worker can claim the run. If ctx ends during the
// wait, the run is cancelled.
//
// Under an idempotency key a repeat starts no run and does not call fn: it returns
// the result of the first run, with the recorded reason if that failed; ErrConflict
// while that has not ended. fn's context carries no key.
//
// Errors: those of [Runs.Start] and [Handle.Do]; ErrClosed when the group is being
// drained.
func (rs *Runs) Do(ctx context.Context, threadID string, req Request, fn func(context.Context, *Handle) error) error {
	_, err := rs.Run(ctx, threadID, req, fn)
	return err
}

// Run is [Runs.Do] that also returns the run as it is afterwards; nil if none started.
func (rs *Runs) Run(ctx context.Context, threadID string, req Request, fn func(context.Context, *Handle) error) (*Run, error) {
	id, err := rs.do(ctx, threadID, req, fn)
	if id == "" {
		return nil, err
	}
	r, getErr := rs.Get(context.WithoutCancel(ctx), id)
	return r, errors.Join(err, getErr)
}

func (rs *Runs) do(ctx context.Context, threadID string, req Request, fn func(context.Context, *Handle) error) (id string, _ error) {
	keyed := thole.Reread(thole.Call(ctx, "run.do", threadID), rs.rereadStarted)
	member := rs.opts.Group.enter()
	ctx, ok := member.work(thole.WithoutIdempotencyKey(ctx))
	if !ok {
		return "", fmt.Errorf("run in %s: %w: workers are being drained", threadID, thole.ErrClosed)
	}
	defer member.leave()
	if ctx.Err() != nil {
		return "", fmt.Errorf("run in %s: %w", threadID, context.Cause(ctx))
	}
	// Without ctx's cancel: this call must learn of a run that began, to end it.
	s, receipt, err := thole.Update(context.WithoutCancel(keyed), rs.sp, func(tx *thole.Tx) (started, error) {
		return rs.start(tx, threadID, req, thole.NewID("worker"))
	})
	if err != nil {
		return "", fmt.Errorf("run in %s: %w", threadID, err)
	}
	r := s.Run
	if receipt.Repeated {
		now, err := rs.Get(ctx, r.ID)
		if err == nil {
			err = now.result()
		}
		return r.ID, err
	}
	h := rs.handle(r, receipt.Fence(s.Fence))
	if err := cancelTree(ctx, rs.sp, s.Rest, BySuperseded); err != nil {
		h.persist(ctx, ByShutdown)
		_, endErr := h.end(ctx, nil)
		if errors.Is(endErr, thole.ErrFenced) { // it was queued, and is cancelled
			endErr = nil
		}
		return r.ID, fmt.Errorf("run %s: cancel what it supersedes: %w", r.ID, errors.Join(err, endErr))
	}
	if r.Status == Queued {
		if err := h.await(ctx); err != nil {
			return r.ID, err
		}
	}
	return r.ID, h.do(ctx, fn)
}

// result returns what a repeated Do returns for the run.
func (r *Run) result() error {
	switch {
	case !r.Ended():
		return fmt.Errorf("run %s, of an earlier call under this idempotency key: %w: it is %s", r.ID, thole.ErrConflict, r.Status)
	case r.Status == Succeeded:
		return nil
	case r.Cancel != nil:
		return &CancelledError{Run: r.ID, Cause: r.Cancel.Cause}
	}
	return fmt.Errorf("run %s %s: %s", r.ID, r.Status, r.Error)
}

// await renews the lease of a queued run until it is ready, and begins it.
func (h *Handle) await(ctx context.Context) error {
	waiting, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop(nil)
	wg.Go(func() { h.keep(waiting, stop) })
	err := h.begin(waiting)
	if err != nil && ctx.Err() != nil {
		cause := causeOf(ctx)
		h.persist(ctx, cause)
		return &CancelledError{Run: h.id, Cause: cause}
	}
	return err
}

// begin waits until the run is ready, and begins it.
func (h *Handle) begin(ctx context.Context) error {
	// The run before it emits run.finished, perhaps in another thread.
	w, err := h.sp.Watch(ctx, &thole.WatchOptions{Durable: true,
		Types: []string{"run.finished", "thread.destroyed", "thread.expired"}})
	if err != nil {
		return err
	}
	defer w.Close()
	asker := h.rs.sp.Because(h.id).Under(h.fence)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var gone error
		_, err := asker.Update(context.WithoutCancel(ctx), func(tx *thole.Tx) error { // as in Do
			gone = nil
			r, err := load(tx, h.id)
			switch {
			case err != nil:
				return err
			case r.Cancel != nil:
				return &CancelledError{Run: h.id, Cause: r.Cancel.Cause}
			case r.Ended():
				return fmt.Errorf("run %s: %w: it is %s", h.id, thole.ErrConflict, r.Status)
			}
			if _, err := thread.Load(tx, r.Thread); errors.Is(err, thole.ErrNotFound) {
				gone = h.goneError()
				return r.drop(tx)
			} else if err != nil {
				return err
			}
			if !r.own.Ready {
				return nil
			}
			if err := r.begin(tx); sick(err) {
				gone = err
				return r.finish(tx, Failed, brief(err.Error()))
			} else if err != nil {
				return err
			}
			h.turn, h.request = r.Turn, r.asked // the request may have been edited
			return nil
		})
		if err == nil {
			err = gone
		}
		if err != nil || h.turn != "" {
			return err
		}
		if err := news(ctx, w); err != nil {
			return err
		}
	}
}

// news waits for w's next item. ErrTrimmed counts as one: the space has changed by
// other means than commits.
func news(ctx context.Context, w *thole.Watch) error {
	if _, err := w.Next(ctx); !errors.Is(err, thole.ErrTrimmed) {
		return err
	}
	return nil
}

// Do calls fn to do the run's work and ends the run when fn returns: as succeeded on
// nil, as failed on an error or a panic, which Do returns as *PanicError.
//
// While fn works, Do renews the lease and commits streamed text. fn's context ends as
// soon as anyone in any process cancels the run, with a *CancelledError as its cause,
// or when the run has ended or another worker has it, with ErrFenced. When ctx ends,
// Do cancels the run: its cause is that of the *CancelledError that ended ctx, else
// "timeout" after a deadline, else "disconnect". A cancelled run ends as cancelled (or
// timed_out) whatever fn returns, and keeps what it streamed. A fn that returns a
// *CancelledError for its own run, or for none, cancels the run.
//
// Errors: *CancelledError; ErrFenced, without fn's, when the run has ended or another
// worker has it, even if fn returned before its context ended; fn's and those of the
// commit that ends the run; ErrInvalid, before any work, for an idempotency key on ctx:
// give it to the call that starts or claims the run.
func (h *Handle) Do(ctx context.Context, fn func(context.Context, *Handle) error) error {
	if err := thole.RefuseIdempotencyKey(ctx, "work on a run", "give it to the call that starts or claims the run"); err != nil {
		return fmt.Errorf("run %s: %w", h.id, err)
	}
	member := h.member
	if member == nil {
		member = h.rs.opts.Group.enter()
	}
	ctx, ok := member.work(ctx)
	if !ok { // Drain's ctx has ended
		h.persist(ctx, ByShutdown)
		r, err := h.end(ctx, nil)
		if err == nil && r.Cancel != nil {
			err = &CancelledError{Run: h.id, Cause: r.Cancel.Cause}
		}
		return err
	}
	defer member.leave()
	return h.do(ctx, fn)
}

func (h *Handle) do(ctx context.Context, fn func(context.Context, *Handle) error) error {
	// The work's context ends with a cause set here, not with ctx's.
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := func(cause error) {
		if gone(cause) {
			h.text.lose(cause)
		}
		cancel(cause)
	}
	helpers, enough := context.WithCancel(work)
	h.text.setDriven(true)
	var wg sync.WaitGroup
	wg.Go(func() { h.keep(helpers, stop) })
	wg.Go(func() { h.obey(helpers, stop) })
	wg.Go(func() { h.flushLoop(helpers) })
	var late <-chan time.Time // a sweep also ends the run, somewhat later
	if h.timeout > 0 {
		timer := time.NewTimer(h.timeout)
		defer timer.Stop()
		late = timer.C
	}
	done := make(chan struct{})
	wg.Go(func() {
		select {
		case <-late:
			stop(&CancelledError{Run: h.id, Cause: ByTimeout})
			h.persist(ctx, ByTimeout)
		case <-ctx.Done():
			cause := causeOf(ctx)
			stop(&CancelledError{Run: h.id, Cause: cause})
			h.persist(ctx, cause)
		case <-done:
		}
	})
	err := call(work, h, fn)
	close(done)
	enough()
	wg.Wait()
	h.text.setDriven(false)
	lost := errors.Is(context.Cause(work), thole.ErrFenced)
	stop(nil)
	if lost {
		return h.lost()
	}
	var self *CancelledError
	if errors.As(err, &self) && (self.Run == "" || self.Run == h.id) {
		h.persist(ctx, self.Cause)
	}
	r, endErr := h.end(ctx, err)
	switch {
	case errors.Is(endErr, thole.ErrFenced): // before the work could notice
		return endErr
	case endErr != nil:
		return errors.Join(err, endErr)
	case errors.Is(context.Cause(work), thole.ErrNotFound): // goneError
		return context.Cause(work)
	case r.Cancel != nil:
		return &CancelledError{Run: h.id, Cause: r.Cancel.Cause}
	}
	return err
}

func call(ctx context.Context, h *Handle, fn func(context.Context, *Handle) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return fn(ctx, h)
}

// causeOf returns the cancel cause for a ctx that has ended.
func causeOf(ctx context.Context) string {
	var c *CancelledError
	switch err := context.Cause(ctx); {
	case errors.As(err, &c):
		return c.Cause
	case errors.Is(err, context.DeadlineExceeded):
		return ByTimeout
	}
	return ByDisconnect
}

// persist cancels the run and those below it. A run that has already ended counts as
// success; other failures leave the cancel to the sweep.
func (h *Handle) persist(ctx context.Context, cause string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	h.retry(ctx, func() error {
		_, err := h.rs.Cancel(ctx, h.id, cause)
		return err
	})
}

// end commits the end of the run together with the pending text.
func (h *Handle) end(ctx context.Context, err error) (*Run, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	status, reason := Succeeded, ""
	if err != nil {
		status, reason = Failed, err.Error()
	}
	var r *Run
	tries := 0
	err = h.retry(ctx, func() (err error) {
		tries++
		r, err = h.Finish(ctx, status, reason)
		return err
	})
	if errors.Is(err, thole.ErrConflict) || errors.Is(err, thole.ErrFenced) {
		now, peekErr := h.rs.Peek(ctx, h.id)
		switch ended := peekErr == nil && now.Ended(); {
		case ended && tries > 1 && (now.Status == status || now.Cancel != nil):
			return now, nil // an earlier attempt that failed may have been committed
		case ended || errors.Is(err, thole.ErrFenced):
			return nil, h.lost()
		}
	}
	return r, err
}

func (h *Handle) lost() error { return fmt.Errorf("run %s: %w", h.id, thole.ErrFenced) }

// retry calls do until it succeeds, returns an error that a retry cannot cure, or ctx
// ends.
func (h *Handle) retry(ctx context.Context, do func() error) error {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := do()
		for _, final := range []error{thole.ErrConflict, thole.ErrFenced, thole.ErrNotFound, thole.ErrClosed, thole.ErrInvalid, thole.ErrTooLarge, thole.ErrCorrupt} {
			if errors.Is(err, final) {
				return err
			}
		}
		if err == nil {
			return nil
		}
		if !sleep(ctx, wait) {
			return err
		}
	}
}

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// obey stops the work when the run is cancelled or somebody else ends it. It watches
// the thread's stream, so it learns of either with the commit.
func (h *Handle) obey(ctx context.Context, stop context.CancelCauseFunc) {
	for ctx.Err() == nil {
		if h.follow(ctx, stop) {
			return
		}
		sleep(ctx, time.Second)
	}
}

// follow watches until the work is stopped (true) or the watch fails.
func (h *Handle) follow(ctx context.Context, stop context.CancelCauseFunc) bool {
	w, err := h.sp.Watch(ctx, &thole.WatchOptions{
		Streams: []string{thread.Key(h.thread)}, Durable: true,
		Types: []string{"run.cancel_requested", "run.finished", "thread.destroyed", "thread.expired"},
	})
	if err != nil {
		return false
	}
	defer w.Close()
	for {
		r, err := h.rs.Peek(ctx, h.id) // Peek, not Get: a late worker must not end its own run
		switch {
		case errors.Is(err, thole.ErrNotFound) || err == nil && r.Ended():
			stop(fmt.Errorf("run %s: %w: it has ended", h.id, thole.ErrFenced))
			return true
		case err == nil && r.Cancel != nil:
			stop(&CancelledError{Run: h.id, Cause: r.Cancel.Cause})
			return true
		case err != nil:
			return false
		}
		if ok, err := h.rs.sp.Get(ctx, thread.Key(h.thread)); err == nil && !ok.Exists() {
			stop(h.goneError())
			return true
		}
		if news(ctx, w) != nil {
			return false
		}
	}
}
