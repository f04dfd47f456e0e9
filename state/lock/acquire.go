package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thole-dev/thole"
)

// Acquire takes the lock called name, after everyone who asked before. Nil opts
// mean: exclusively, for the handle's actor, without waiting. Errors: *HeldError
// (ErrConflict) when others have it and opts.Wait is over; *DeadlockError
// (ErrDeadlock) when the wait could never end; ErrInvalid; the cause of ctx's
// end. A caller that dies while it waits is skipped after a while.
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
	if !errors.As(err, &held) || o.Wait == 0 || o.Mode == Intent { // an intent stands in no line
		return l, err
	}
	return a.wait(ctx)
}

// taken is the answer of the commit that takes a lock. Its fence has no token yet.
type taken struct {
	Owner string      `json:"owner"`
	Fence thole.Fence `json:"fence"`
}

// reread finds out as whom the lock was taken: see [thole.Reread].
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

// attempt is one caller's way to a lock.
type attempt struct {
	locks  *Locks
	name   string
	base   string // of the lock's records
	lease  string // base of the lease to take
	opts   Options
	ticket string // in the queue; "": not in it
	queued party  // as whom
	again  bool   // the lock was taken by an earlier call, which did not leave this one's place

	inWay []string        // owners for whom the last take gave up
	dead  map[string]bool // those of which Options.Dead said so
}

// me is who wants the lock.
func (a *attempt) me() party { return party{Owner: a.opts.Owner, Actor: a.locks.sp.Actor()} }

// try is take, again for as long as those in the way turn out to be dead.
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
	// Not to be cut off: who has the lock must know it, to give it back.
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
		if l.Holder != "" && !mine { // nobody has noticed yet that the holder is dead
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

// How long a waiter counts as alive without a sign of life, and how often it
// looks at the lock by itself and gives one.
const (
	waiterTTL = 10 * time.Second
	pollEvery = time.Second
	signEvery = 3 * time.Second
)

// wait queues the caller up and tries again whenever something happened to the
// lock, until it is the caller's or the wait is over.
func (a *attempt) wait(ctx context.Context) (*Lock, error) {
	sp := a.locks.sp
	// What is done on the way is no part of the acquiring that ctx's
	// idempotency key stands for.
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

	// Not to be cut off: who is in the queue must know it, to leave it.
	if err := a.enqueue(context.WithoutCancel(inner)); err != nil {
		return nil, err
	}
	l, err := a.watch(ctx, inner, wake)
	if a.ticket != "" && (err != nil || a.again) {
		// Also when ctx has ended: those behind must not wait for a ghost.
		_, end := sp.Update(context.WithoutCancel(inner), func(tx *thole.Tx) error {
			return leave(tx, a.base, waiter{Ticket: a.ticket, party: a.queued})
		})
		// Who has the lock is told so: the place is taken for dead soon anyway.
		if err != nil && end != nil && !errors.Is(end, thole.ErrClosed) {
			err = errors.Join(err, end)
		}
	}
	return l, err
}

// watch tries to take the lock until that works or the wait is over.
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
