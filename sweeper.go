package thole

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// For each concept, one process at a time ends expired records: the one that holds the
// lease sweeper/<concept> in the space global. If it dies, another takes over when the
// lease expires. The election only saves work; a record ends once because its Expirer's
// commit checks its version.
const (
	sweeperTTL  = 10 * time.Second
	sweepWait   = time.Minute      // the longest wait between tries to end a record
	tryFor      = 30 * time.Second // the longest that a sweep waits for the first try to end a record
	tryLeast    = 2 * time.Second  // the least; each try that takes longer halves the wait
	electWithin = 5 * time.Second  // the longest that a shard waits for the shard of the space global
)

// sweepLoop ends expired records at every Options.Sweep. It takes part in an election
// only when it has found records to end, so an idle store writes nothing.
func (s *Store) sweepLoop(ctx context.Context) {
	w := &sweeper{store: s, holder: NewID("store"), failed: make(map[recordName]retry), stuck: make(map[recordName]bool), after: make(map[string]string)}
	workers := s.commits.Workers(func(shard int, spaces []string) []string { return w.sweep(ctx, shard, spaces) })
	away := ""
	wait := s.opts.Sweep
	next := time.NewTimer(wait)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		spaces, err := s.due(ctx)
		if ctx.Err() != nil {
			return
		}
		away = s.logUnreachable(away, err)
		switch {
		case reached(err) != nil:
			wait = max(s.opts.Sweep, min(2*wait, sweeperTTL))
			s.log.Warn("looking for expired records failed; will try again", "error", err, "in", wait)
		default:
			wait = s.opts.Sweep
		}
		for _, at := range s.stalled() {
			if !slices.Contains(spaces, at.space) {
				spaces = append(spaces, at.space)
			}
		}
		workers.Do(&s.tasks, spaces)
		next.Reset(wait)
	}
}

// logUnreachable logs which of several stores became unreachable or reachable since the last
// call. It returns the argument before of the next call.
func (s *Store) logUnreachable(before string, err error) string {
	var e *UnreachableError
	now := ""
	if errors.As(err, &e) {
		now = strings.Join(e.Patterns(), ", ")
	} else if err != nil {
		return before
	}
	switch {
	case now == before:
	case now == "":
		s.log.Info("all stores answer again", "spaces", before)
	default:
		s.log.Warn("some stores do not answer; the others go on", "spaces", now, "error", err)
	}
	return now
}

// due lists the spaces that may have an expired record. With an [UnreachableError], the
// list is from the stores that answered.
func (s *Store) due(ctx context.Context) (due []string, err error) {
	for q := (SpacesQuery{DueBy: s.Now(), Limit: MaxPage}); ; {
		spaces, err := s.backend.Spaces(ctx, q)
		if reached(err) != nil {
			return due, err
		}
		due = append(due, spaces...)
		if len(spaces) < MaxPage {
			return due, err
		}
		q.After = spaces[len(spaces)-1]
	}
}

// sweepPart is how many expired records of one space a sweep handles before it goes to
// the next space.
const sweepPart = 50

// expired returns some of the space's expired records that a concept declares, and the
// key after which to continue, or "" if there are no more. It skips undeclared records
// below a common key in at most two calls, however many there are.
func (sp *Space) expired(ctx context.Context, after string) (due []Record, next string, err error) {
	now := sp.store.Now()
	q := ListQuery{DueBy: now, After: after, Limit: sweepPart}
	recs, err := sp.store.backend.List(ctx, sp.name, q)
	if err != nil {
		return nil, "", fmt.Errorf("expired records of %s: %w", sp.name, err)
	}
	for _, r := range recs {
		if declared, _ := sp.store.concepts.Record(r.Key); declared != nil && r.Expired(now) {
			due = append(due, r)
		}
	}
	if len(recs) < q.Limit {
		return due, "", nil
	}
	next = recs[len(recs)-1].Key
	if prefix := sp.store.concepts.undeclaredPrefix(next); prefix != "" { // no character sorts after U+10FFFF
		next = max(next, prefix+"/\U0010ffff")
	}
	return due, next, nil
}

// sweeper ends the expired records of a Store.
type sweeper struct {
	store  *Store
	holder string

	mu     sync.Mutex
	failed map[recordName]retry
	stuck  map[recordName]bool // slow tries that are still running
	after  map[string]string   // by space: the key after which to continue
}

// recordName names a record, or with an empty key the list of a space's expired
// records.
type recordName struct{ space, key string }

// retry says when to try again.
type retry struct {
	at    time.Time
	wait  time.Duration
	limit time.Duration // how long the sweep waits for it; 0: tryFor
}

// sweep ends a part of the expired records of each of the spaces, all in one shard, and
// returns the spaces that have more. So a space with many expired records delays the
// others only for the time of a part. A record that cannot be ended has its own time
// for the next try and does not delay others.
func (w *sweeper) sweep(ctx context.Context, shard int, spaces []string) (rest []string) {
	e := &elections{sweeper: w, shard: shard, results: make(map[string]*election)}
	defer e.end(ctx)
	for _, name := range spaces {
		list := recordName{name, ""}
		if !w.ready(list) {
			continue
		}
		sp := w.store.Space(name)
		due, next, err := sp.expired(ctx, w.goOn(name))
		if ctx.Err() != nil {
			return nil
		}
		w.stop(name, next)
		if w.note(list, err); next != "" {
			rest = append(rest, name)
		}
		for _, rec := range due {
			at := recordName{name, rec.Key}
			if !w.ready(at) {
				continue
			}
			elected := e.elected(ctx, rec.Key)
			if elected == nil {
				continue
			}
			err := w.try(ctx, elected, at, func(ctx context.Context) error { return sp.endNow(ctx, rec) })
			if ctx.Err() != nil {
				return nil
			}
			w.note(at, err)
		}
	}
	for _, at := range w.store.stalled() {
		declared, _ := w.store.concepts.Record(at.key)
		if declared == nil || !slices.Contains(spaces, at.space) || !w.ready(at) {
			continue
		}
		err := w.try(ctx, ctx, at, func(ctx context.Context) error { return w.store.Space(at.space).endStalled(ctx, at.key) })
		if ctx.Err() != nil {
			return nil
		}
		w.note(at, err)
	}
	return rest
}

// goOn returns the key after which to continue in a space.
func (w *sweeper) goOn(space string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.after[space]
}

// stop sets the key after which to continue in a space; "": begin again.
func (w *sweeper) stop(space, next string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if next == "" {
		delete(w.after, space)
	} else {
		w.after[space] = next
	}
}

// endNow is expire, but returns an error if rec is unchanged afterwards.
func (sp *Space) endNow(ctx context.Context, rec Record) error {
	if err := sp.expire(ctx, rec.Key); err != nil {
		return err
	}
	now, err := sp.store.backend.Get(ctx, sp.name, rec.Key)
	if err == nil && now[0].Version == rec.Version {
		err = fmt.Errorf("%w: its expirer leaves %s expired", ErrConflict, rec.Key)
	}
	return err
}

// ready reports whether n may be tried now: no try is running, and the wait after a
// failure is over.
func (w *sweeper) ready(n recordName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, failed := w.failed[n]
	return !w.stuck[n] && (!failed || !time.Now().Before(r.at))
}

// errSlow means that the sweep no longer waits for a try, which continues.
var errSlow = errors.New("it takes long")

// try calls end, which ends a record, and waits for it for a limited time. After that
// it returns errSlow and end continues in the background. The context of end is
// cancelled when the Store closes, and, while try still waits, when another process is
// elected.
func (w *sweeper) try(ctx, elected context.Context, n recordName, end func(context.Context) error) error {
	w.mu.Lock()
	wait := max(cmp.Or(w.failed[n].limit, tryFor)>>len(w.stuck), tryLeast)
	w.mu.Unlock()
	own, cancel := context.WithCancelCause(ctx)
	lost := context.AfterFunc(elected, func() { cancel(context.Cause(elected)) })
	defer lost()
	up := time.NewTimer(wait)
	defer up.Stop()
	done := make(chan error, 1)
	w.store.tasks.Go(func() {
		defer cancel(nil)
		err := end(own)
		w.mu.Lock()
		defer w.mu.Unlock()
		done <- err
		if w.stuck[n] && err == nil {
			delete(w.failed, n)
		}
		delete(w.stuck, n)
	})
	select {
	case err := <-done:
		return err
	case <-up.C:
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(done) > 0 {
			return <-done
		}
		w.stuck[n] = true
		return errSlow
	}
}

// maxFailed bounds the number of remembered failures. When it is reached, all are
// forgotten and so tried again early.
const maxFailed = 100_000

// note records the result of a try.
func (w *sweeper) note(n recordName, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		delete(w.failed, n)
		return
	}
	if len(w.failed) >= maxFailed {
		clear(w.failed)
	}
	sweep := w.store.opts.Sweep
	r := retry{wait: max(sweep, min(2*w.failed[n].wait, sweepWait)), limit: w.failed[n].limit}
	if errors.Is(err, errSlow) { // it delays others: wait less for it next time
		r.wait, r.limit = sweepWait, max(cmp.Or(r.limit, tryFor)/2, tryLeast)
	}
	r.at = time.Now().Add(r.wait - sweep/2) // half a sweep early: sweeps are not exactly on time
	w.failed[n] = r
	w.store.log.Warn("an expired record could not be ended; will try again", "space", n.space, "key", n.key, "error", err, "in", r.wait)
}

// elections holds the results of one sweep's elections, one per concept.
type elections struct {
	*sweeper
	shard   int
	results map[string]*election // by concept
}

// election is the result of the election for one concept.
type election struct {
	ctx    context.Context // nil: another process is elected
	stop   context.CancelCauseFunc
	base   string
	fence  Fence
	keeper sync.WaitGroup
}

// elected runs the election for the concept of key, once per sweep. If this process is
// elected it returns a context that ends when another takes over, else nil.
func (e *elections) elected(ctx context.Context, key string) context.Context {
	_, concept := e.store.concepts.Record(key)
	o := e.results[concept.Name]
	if o == nil {
		o = e.run(ctx, concept.Name)
		e.results[concept.Name] = o
	}
	if o.ctx == nil || o.ctx.Err() != nil {
		return nil
	}
	return o.ctx
}

// run tries to acquire the lease for a concept. If global is in another shard that
// cannot be reached, the sweep goes on without the lease: that costs duplicate work,
// not correctness.
func (e *elections) run(ctx context.Context, concept string) *election {
	o := &election{base: "sweeper/" + url.PathEscape(concept)}
	if e.shard > 0 {
		o.base = fmt.Sprintf("%s/%d", o.base, e.shard)
	}
	global := e.store.Space("global")
	elsewhere := e.store.commits.Shard("global") != e.shard
	within, cancel := ctx, context.CancelFunc(func() {})
	if elsewhere {
		within, cancel = context.WithTimeout(ctx, electWithin)
	}
	defer cancel()
	at := recordName{"global", o.base}
	if e.ready(at) {
		var fence Fence
		res, err := global.Update(within, func(tx *Tx) (err error) {
			fence, err = tx.Acquire(o.base, e.holder, sweeperTTL)
			return err
		})
		switch {
		case err == nil:
			e.note(at, nil)
			o.fence = fence.At(res)
			o.ctx, o.stop = context.WithCancelCause(ctx)
			o.keeper.Go(func() { o.stop(global.KeepLease(o.ctx, o.fence, sweeperTTL)) })
			return o
		case errors.Is(err, ErrConflict) || ctx.Err() != nil: // another process sweeps, or the Store closes
			return o
		}
		e.note(at, err)
	}
	if elsewhere {
		o.ctx, o.stop = context.WithCancelCause(ctx)
	}
	return o
}

// end releases the leases. A lease that cannot be released expires.
func (e *elections) end(ctx context.Context) {
	for _, o := range e.results {
		if o.ctx == nil {
			continue
		}
		o.stop(nil)
		o.keeper.Wait()
		if o.fence.Key == "" {
			continue
		}
		_, err := e.store.Space("global").Under(o.fence).Update(ctx, func(tx *Tx) error {
			tx.Release(o.base)
			return nil
		})
		if err != nil && ctx.Err() == nil {
			e.store.log.Info("the sweeper's lease was not given up; it runs out", "lease", o.base, "error", err)
		}
	}
}

// Sweep ends all expired records that the Store's concepts declare, now, without an
// election and without waiting after earlier failures. The Store sweeps by itself
// unless Options.Sweep is negative. If a record cannot be ended, Sweep continues with
// the others; it returns all errors.
func (s *Store) Sweep(ctx context.Context) error {
	spaces, err := s.due(ctx)
	errs := []error{err}
	for _, name := range spaces {
		sp := s.Space(name)
		for after, more := "", true; more; more = after != "" {
			var due []Record
			due, after, err = sp.expired(ctx, after)
			errs = append(errs, err)
			for _, rec := range due {
				errs = append(errs, sp.expire(ctx, rec.Key))
			}
		}
	}
	return errors.Join(errs...)
}
