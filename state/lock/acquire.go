package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thole-dev/thole"
)

// Acquire takes the named lock, after all who asked for it before. Nil opts mean: in
// mode exclusive, for the handle's actor, without waiting. A caller that dies while it
// waits is skipped after 10 s. Errors: *HeldError (ErrConflict) when others have the
// lock and opts.Wait has passed; *DeadlockError (ErrDeadlock) when the wait could never
// end; ErrInvalid; ctx's cause.
func (ls *Locks) Acquire(ctx context.Context, name string, opts *Options) (*Lock, error) {
	ctx = thole.Call(ctx, "lock.acquire", name)
	var o Options
	if opts != nil {
		o = *opts
	}
	b, err := base(name)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(lockName.Check(name), o.complete(ls.sp)); err != nil {
		return nil, err
	}
	a := &attempt{locks: ls, name: name, base: b, lease: b, opts: o}
	if o.Mode == Intent {
		if err := intentName.Check(name, o.Owner); err != nil {
			return nil, err
		}
		a.lease = intentBase(b, o.Owner)
	}
	ctx = thole.Reread(ctx, a.reread)
	l, err := a.try(ctx)
	var held *HeldError
	if !errors.As(err, &held) || o.Wait == 0 || o.Mode == Intent { // an intent does not queue
		return l, err
	}
	return a.wait(ctx)
}

// taken is the answer of the commit that takes a lock. Its fence has no token yet.
type taken struct {
	Owner string      `json:"owner"`
	Fence thole.Fence `json:"fence"`
}

// reread returns the owner that took the lock, and its lease: see [thole.Reread].
func (a *attempt) reread(_ context.Context, events []thole.Event) (t taken, err error) {
	for _, e := range events {
		var c Change
		if e.Type != TypeAcquired {
			continue
		}
		if err := e.As(&c); err != nil {
			return t, err
		}
		t = taken{Owner: c.Owner, Fence: thole.Fence{Key: a.base + "/owner"}}
		if c.Mode == Intent {
			t.Fence.Key = intentBase(a.base, c.Owner) + "/owner"
		}
	}
	return t, nil
}

// attempt is one call of Acquire.
type attempt struct {
	locks  *Locks
	name   string
	base   string // of the lock's records
	lease  string // base of the lease to take
	opts   Options
	ticket string // in the queue; "": not in it
	queued party  // the party in the queue
	again  bool   // an earlier call took the lock, so this call's ticket is still queued

	inWay []string        // owners because of whom the last take failed
	dead  map[string]bool // owners that Options.Dead reported
}

// me returns the party that wants the lock.
func (a *attempt) me() party { return party{Owner: a.opts.Owner, Actor: a.locks.sp.Actor()} }

// try calls take, and again as long as Options.Dead reports an owner in the way.
func (a *attempt) try(ctx context.Context) (*Lock, error) {
	for {
		l, err := a.take(ctx)
		var held *HeldError
		if a.opts.Dead == nil || !errors.As(err, &held) {
			return l, err
		}
		found := false
		for _, owner := range a.inWay {
			if !a.dead[owner] && a.opts.Dead(ctx, owner) {
				found = true
				if a.dead == nil {
					a.dead = map[string]bool{}
				}
				a.dead[owner] = true
			}
		}
		if !found {
			return l, err
		}
	}
}

// take acquires the lock if it is the caller's turn; else *HeldError.
func (a *attempt) take(ctx context.Context) (*Lock, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	// Without ctx's cancel: the caller must learn that it has the lock, to release it.
	got, r, err := thole.Update(context.WithoutCancel(ctx), a.locks.sp, func(tx *thole.Tx) (t taken, err error) {
		l, err := tx.Lease(a.lease)
		if err != nil {
			return t, err
		}
		a.inWay = nil
		if l.Alive = l.Alive && !a.dead[l.Holder]; l.Alive {
			a.inWay = []string{l.Holder}
		}
		mine := l.IsOf(a.locks.sp.Actor(), a.opts.Owner) && (a.opts.Again || a.opts.Mode == Intent)
		if a.opts.Mode == Intent && l.Alive && !mine {
			return t, &HeldError{Name: a.name, Owner: l.Holder}
		}
		if a.opts.Mode == Exclusive {
			before, err := a.ahead(tx)
			if err != nil {
				return t, err
			}
			switch {
			case l.Alive && !mine:
				return t, &HeldError{Name: a.name, Owner: l.Holder, Waiters: before}
			case before > 0 && !mine:
				return t, &HeldError{Name: a.name, Waiters: before}
			}
		}
		if l.Holder != "" && !mine { // the holder is dead, and no sweep has freed the lock
			tx.Release(a.lease)
			tx.Emit(a.base, TypeExpired, Change{Name: a.name, Owner: l.Holder, Mode: a.opts.Mode})
		}
		t.Owner = a.opts.Owner
		if t.Fence, err = tx.Acquire(a.lease, t.Owner, a.opts.TTL); err != nil {
			return t, err
		}
		if a.ticket != "" {
			if err := leave(tx, a.base, waiter{Ticket: a.ticket, party: a.queued}); err != nil {
				return t, err
			}
		}
		// The last event of the commit, so that its position is the first token.
		tx.Emit(a.base, TypeAcquired, Change{Name: a.name, Owner: t.Owner, Mode: a.opts.Mode})
		return t, nil
	})
	if err != nil {
		return nil, err
	}
	a.again = r.Repeated
	return &Lock{
		Name: a.name, Owner: got.Owner, Mode: a.opts.Mode, TTL: a.opts.TTL,
		Fence: r.Fence(got.Fence), locks: a.locks, state: &state{},
	}, nil
}

// How long a waiter counts as alive without a sign of life, and how often it polls the
// lock and gives one.
const (
	waiterTTL = 10 * time.Second
	pollEvery = time.Second
	signEvery = 3 * time.Second
)

// wait queues the caller and tries again whenever the lock is released or expires, until
// the caller has it or opts.Wait has passed.
func (a *attempt) wait(ctx context.Context) (*Lock, error) {
	sp := a.locks.sp
	// ctx's idempotency key covers the commit that takes the lock, not the queueing.
	inner, cancel := context.WithCancel(thole.WithoutIdempotencyKey(ctx))
	defer cancel()
	wake := make(chan struct{}, 1)
	unsubscribe, err := sp.Subscribe(inner, &thole.WatchOptions{
		Streams: []string{a.base}, Types: []string{TypeReleased, TypeExpired}, Durable: true,
	}, func(*thole.Delivery) {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	defer unsubscribe()

	// Without ctx's cancel: a caller must learn that it is queued, to leave the queue.
	if err := a.enqueue(context.WithoutCancel(inner)); err != nil {
		return nil, err
	}
	l, err := a.watch(ctx, inner, wake)
	if a.ticket != "" && (err != nil || a.again) {
		// Also when ctx has ended: the waiters behind must not wait for this one.
		_, end := sp.Update(context.WithoutCancel(inner), func(tx *thole.Tx) error {
			return leave(tx, a.base, waiter{Ticket: a.ticket, party: a.queued})
		})
		// Ignore the error if the caller has the lock: its ticket expires anyway.
		if err != nil && end != nil && !errors.Is(end, thole.ErrClosed) {
			err = errors.Join(err, end)
		}
	}
	return l, err
}

// watch tries to take the lock until it succeeds or opts.Wait has passed.
func (a *attempt) watch(ctx, inner context.Context, wake <-chan struct{}) (*Lock, error) {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	var over <-chan time.Time
	if a.opts.Wait > 0 {
		t := time.NewTimer(a.opts.Wait)
		defer t.Stop()
		over = t.C
	}
	signed := time.Now()
	for {
		l, err := a.try(ctx)
		var held *HeldError
		if !errors.As(err, &held) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for lock %q: %w", a.name, context.Cause(ctx))
		case <-over:
			return nil, err
		case <-wake:
		case <-poll.C:
			if time.Since(signed) < signEvery {
				continue
			}
			signed = time.Now()
			// The holder may have changed since the wait began.
			if err := a.enqueue(inner); err != nil {
				return nil, err
			}
		}
	}
}
