package rest

import (
	"context"
	"fmt"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/lock"
)

func lockRoutes() []route {
	const all, one = "/v1/spaces/{space}/locks", "/v1/spaces/{space}/locks/{name...}"
	return []route{
		{method: "POST", path: all, tag: "locks", access: write, status: 201,
			summary: "Acquire a lock, waiting for it in line if asked to; the token goes into Thole-Fence", do: takes(acquireLock)},
		{method: "GET", path: all, tag: "locks", access: read, query: pagingParams(),
			summary: "List who holds, announced or waits for a lock", do: gives(listLocks)},
		{method: "GET", path: one, tag: "locks", access: read, summary: "Read who has a lock; nobody is no error", do: gives(getLock)},
		{method: "PUT", path: one, tag: "locks", access: write, holds: true, summary: "Renew a lock; Thole-Fence holds its token", do: mayTake(renewLock)},
		{method: "DELETE", path: one, tag: "locks", access: write, holds: true, ends: true, summary: "Release a lock; Thole-Fence holds its token", do: gives(releaseLock)},
	}
}

// maxWait bounds how long one request may wait for something.
const maxWait = 300

// NewLock asks for a lock.
type NewLock struct {
	Name  string    `json:"name" example:"src/app.ts"`
	Owner string    `json:"owner,omitempty" doc:"one thing that does one step at a time; default the actor and a new id; others see it"`
	TTL   float64   `json:"ttl,omitempty" doc:"seconds without renewal; default 30 and at most 86400"`
	Wait  float64   `json:"wait,omitempty" doc:"seconds to wait for others, up to 300; default 0"`
	Mode  lock.Mode `json:"mode,omitempty" enum:"exclusive|intent"`
	Again bool      `json:"again,omitempty" doc:"take anew what owner itself holds, such as after a restart: as the same actor, or with the lock's token in Thole-Fence"`
}

// HeldLock is a lock that the caller has.
type HeldLock struct {
	Name  string    `json:"name"`
	Owner string    `json:"owner"`
	Mode  lock.Mode `json:"mode"`
	TTL   float64   `json:"ttl" doc:"seconds"`
	Token string    `json:"token" doc:"goes into Thole-Fence"`
}

func acquireLock(c *call, in NewLock) (HeldLock, error) {
	ttl, err := seconds("ttl", in.TTL, int64(thole.MaxLease/time.Second))
	if err != nil {
		return HeldLock{}, err
	}
	wait, err := seconds("wait", in.Wait, maxWait)
	if err != nil {
		return HeldLock{}, err
	}
	ctx, cancel := c.whileServing()
	defer cancel()
	l, err := lock.In(c.space).Acquire(ctx, in.Name, &lock.Options{Owner: in.Owner, TTL: ttl, Wait: wait, Mode: in.Mode, Again: in.Again})
	if err != nil {
		return HeldLock{}, err
	}
	c.created("locks", l.Name)
	return HeldLock{Name: l.Name, Owner: l.Owner, Mode: l.Mode, TTL: l.TTL.Seconds(), Token: l.Fence.Proof()}, nil
}

// whileServing is the call's context, which also ends when the server goes
// away: waiting is not worth holding it up. So it does when the caller's token ends.
func (c *call) whileServing() (context.Context, context.CancelFunc) {
	known, forget := c.whileKnown(c.ctx)
	ctx, cancel := context.WithCancelCause(known)
	end := func() { cancel(fmt.Errorf("%w: %w", thole.ErrClosed, errDraining)) }
	if c.api.drain.Err() != nil {
		end() // now, not in a while
	}
	stop := context.AfterFunc(c.api.drain, end)
	return ctx, func() { stop(); cancel(nil); forget() }
}

// seconds turns a number of seconds from a body into a duration; 0 stays 0. One
// that is shorter than a millisecond would come to nothing, and so to a default.
func seconds(field string, n float64, limit int64) (time.Duration, error) {
	if n == 0 {
		return 0, nil
	}
	if !(n >= 0.001 && n <= float64(limit)) {
		return 0, invalid(field, "%v is not a number of seconds: 0, or from 0.001 to %d", n, limit)
	}
	return time.Duration(n * float64(time.Second)), nil
}

// LockHolder is who holds or announced a lock. Its token is its own.
type LockHolder struct {
	Owner   string    `json:"owner"`
	Since   time.Time `json:"acquired_at"`
	Expires time.Time `json:"expires_at,omitzero" doc:"absent: its time is up"`
}

// LockInfo is a lock as others see it.
type LockInfo struct {
	Name    string            `json:"name"`
	Holder  *LockHolder       `json:"holder,omitempty" doc:"absent: nobody has it"`
	Intents []LockHolder      `json:"intents"`
	Waiters []lock.WaiterInfo `json:"waiters" doc:"in their order"`
}

func lockInfo(l lock.Info) LockInfo {
	info := LockInfo{Name: l.Name, Intents: []LockHolder{}, Waiters: []lock.WaiterInfo{}}
	shown := func(h lock.Holder) LockHolder { return LockHolder{h.Owner, h.Since, h.Expires} }
	if l.Holder != nil {
		holder := shown(*l.Holder)
		info.Holder = &holder
	}
	for _, h := range l.Intents {
		info.Intents = append(info.Intents, shown(h))
	}
	info.Waiters = append(info.Waiters, l.Waiters...)
	return info
}

func listLocks(c *call) (page[LockInfo], error) {
	limit, err := c.limit(100)
	if err != nil {
		return page[LockInfo]{}, err
	}
	p, err := lock.In(c.space).List(c.ctx, &lock.ListOptions{After: c.arg("cursor"), Limit: limit})
	var items []LockInfo
	for _, l := range p.Locks {
		items = append(items, lockInfo(l))
	}
	return pageOf(items, p.Next), err
}

func getLock(c *call) (LockInfo, error) {
	l, err := lock.In(c.space).Get(c.ctx, c.r.PathValue("name"))
	return lockInfo(l), err
}

// Renewal says for how long.
type Renewal struct {
	TTL float64 `json:"ttl,omitempty" doc:"seconds from now; default 30 and at most 86400"`
}

func renewLock(c *call, in Renewal) (none, error) {
	ttl, err := seconds("ttl", in.TTL, int64(thole.MaxLease/time.Second))
	if err != nil {
		return none{}, err
	}
	f, err := c.fence()
	if err != nil {
		return none{}, err
	}
	return none{}, lock.In(c.handle(c.space.Name())).Renew(c.ctx, c.r.PathValue("name"), f, ttl)
}

func releaseLock(c *call) (none, error) {
	f, err := c.fence()
	if err != nil {
		return none{}, err
	}
	return none{}, lock.In(c.handle(c.space.Name())).Release(c.ctx, c.r.PathValue("name"), f)
}

// fence is the one token that an operation on a lease itself needs.
func (c *call) fence() (thole.Fence, error) {
	if !c.route.holds {
		panic(fmt.Sprintf("%s %s does not declare that it needs a token", c.route.method, c.route.path))
	}
	if len(c.fences) != 1 {
		return thole.Fence{}, invalid("Thole-Fence", "must hold one token here")
	}
	return c.fences[0], nil
}
