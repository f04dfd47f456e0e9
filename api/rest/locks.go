package rest

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/lock"
)

func lockOperations() []operation {
	const all, one = "/v1/spaces/{space}/locks", "/v1/spaces/{space}/locks/{name...}"
	return []operation{
		{id: "acquireLock", method: "POST", path: all, access: write, status: 201, location: all + "/{name}",
			summary: "Acquire a lock, waiting in a queue if asked to; send its token in Thole-Fence", does: does(acquireLock),
			failures: []failure{{journal.ErrConflict, "somebody else holds it; holder says who"}, {journal.ErrDeadlock, "the waiters would wait for each other; cycle says who"}}},
		{id: "listLocks", method: "GET", path: all, access: read,
			summary: "List who holds, announced or waits for a lock", does: does(listLocks)},
		{id: "getLock", method: "GET", path: one, access: read,
			summary: "Read who holds a lock; that nobody does is not an error", does: does(getLock)},
		{id: "renewLock", method: "PUT", path: one, access: write,
			summary: "Renew a lock", does: does(renewLock)},
		{id: "releaseLock", method: "DELETE", path: one, access: write, ends: true,
			summary: "Release a lock", does: does(releaseLock)},
	}
}

// NewLock asks for a lock.
type NewLock struct {
	Name  string    `json:"name" example:"src/app.ts"`
	Owner string    `json:"owner,omitempty" doc:"who takes the lock; must do one step at a time; default: the actor and a new id; visible to others"`
	TTL   float64   `json:"ttl,omitempty" default:"30" min:"0.001" max:"86400" doc:"seconds without renewal"`
	Wait  float64   `json:"wait,omitempty" default:"0" min:"0" max:"300" doc:"seconds to wait for others"`
	Mode  lock.Mode `json:"mode,omitempty" default:"exclusive" enum:"exclusive|intent"`
	Again bool      `json:"again,omitempty" doc:"take a lock again that owner itself holds, such as after a restart; needs the same actor, or the lock's token in Thole-Fence"`
}

// HeldLock is a lock that the caller holds.
type HeldLock struct {
	Name  string    `json:"name"`
	Owner string    `json:"owner"`
	Mode  lock.Mode `json:"mode"`
	TTL   float64   `json:"ttl" doc:"seconds"`
	Token string    `json:"token" doc:"send it in Thole-Fence"`
}

type acquireLockIn struct {
	Body NewLock
}

func acquireLock(c *call, in acquireLockIn) (HeldLock, error) {
	ctx, cancel := c.whileServing()
	defer cancel()
	ttl, badTTL := seconds("/ttl", in.Body.TTL)
	wait, badWait := seconds("/wait", in.Body.Wait)
	if err := cmp.Or(badTTL, badWait); err != nil {
		return HeldLock{}, err
	}
	l, err := lock.In(c.space).Acquire(ctx, in.Body.Name, &lock.Options{
		Owner: in.Body.Owner, TTL: ttl, Wait: wait, Mode: in.Body.Mode, Again: in.Body.Again,
	})
	if err != nil {
		return HeldLock{}, err
	}
	token, err := tokenOf(l.Fence)
	if err != nil {
		return HeldLock{}, err
	}
	return HeldLock{Name: l.Name, Owner: l.Owner, Mode: l.Mode, TTL: l.TTL.Seconds(), Token: token}, nil
}

// tokenOf returns the token of a lease that the caller acquired, in this request or in
// the first one that it repeats. A repeat with another bearer token is ErrFenced: the
// receipt's secret is encrypted with the first one.
func tokenOf(f thole.Fence) (token string, err error) {
	if token = f.Proof(); token == "" {
		err = fmt.Errorf("%w: the lease was taken with another bearer token, for which alone it is kept", thole.ErrFenced)
	}
	return token, err
}

// whileServing returns the call's context, which also ends when the server drains, so
// that waits do not hold up its shutdown, and when the caller's token ends.
func (c *call) whileServing() (context.Context, context.CancelFunc) {
	known, forget := c.whileKnown(c.ctx)
	ctx, cancel := context.WithCancelCause(known)
	end := func() { cancel(fmt.Errorf("%w: %w", thole.ErrClosed, errDraining)) }
	if c.api.drain.Err() != nil {
		end() // at once: AfterFunc calls it in a goroutine
	}
	stop := context.AfterFunc(c.api.drain, end)
	return ctx, func() { stop(); cancel(nil); forget() }
}

// seconds returns n seconds, which the member field gives. 0 has a meaning of its own, so
// less than a millisecond, which could be rounded to it, is refused.
func seconds(field string, n float64) (time.Duration, error) {
	if n > 0 && n < 0.001 {
		return 0, invalid(field, "%v is less than a millisecond, 0.001", n)
	}
	return time.Duration(n * float64(time.Second)), nil
}

// LockHolder is the holder of a lock, or one that announced an intent. It does not
// show the lease's token.
type LockHolder struct {
	Owner   string    `json:"owner" names:"masked" doc:"empty: the lock is held, and its holder's record cannot be read"`
	Since   time.Time `json:"acquired_at"`
	Expires time.Time `json:"expires_at,omitzero" doc:"absent: it has expired"`
}

// LockInfo is a lock as callers other than the holder see it.
type LockInfo struct {
	Name    string            `json:"name"`
	Holder  *LockHolder       `json:"holder,omitempty" doc:"absent: nobody holds it"`
	Intents []LockHolder      `json:"intents"`
	Waiters []lock.WaiterInfo `json:"waiters" doc:"in the order of the queue"`
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

func listLocks(c *call, in paging) (page[LockInfo], error) {
	p, err := lock.In(c.space).List(c.ctx, &lock.ListOptions{After: in.Cursor, Limit: in.Limit})
	out := thole.PageOf[LockInfo]{Next: p.Next}
	for _, l := range p.Items {
		out.Items = append(out.Items, lockInfo(l))
	}
	return pageOf(out, err)
}

type ofLock struct {
	Name string `path:"name" doc:"may hold slashes" example:"src/app.ts"`
}

func getLock(c *call, in ofLock) (LockInfo, error) {
	l, err := lock.In(c.space).Get(c.ctx, in.Name)
	return lockInfo(l), err
}

// ofLease is embedded by operations on a lease itself. They do not use the token as a
// fence of their commits, since they must also handle a lease that is lost.
type ofLease struct {
	Fence thole.Fence `header:"Thole-Fence" doc:"the lease's token: the member token of the answer that gave it"`
}

// Renewal says for how long a lock is renewed.
type Renewal struct {
	TTL float64 `json:"ttl,omitempty" default:"30" min:"0.001" max:"86400" doc:"seconds from now"`
}

type renewLockIn struct {
	ofLock
	ofLease
	Body Renewal `body:"optional"`
}

func renewLock(c *call, in renewLockIn) (none, error) {
	ttl, err := seconds("/ttl", in.Body.TTL)
	if err == nil {
		err = lock.In(c.handle(c.space.Name())).Renew(c.ctx, in.Name, in.Fence, ttl)
	}
	return none{}, err
}

type releaseLockIn struct {
	ofLock
	ofLease
}

func releaseLock(c *call, in releaseLockIn) (none, error) {
	return none{}, lock.In(c.handle(c.space.Name())).Release(c.ctx, in.Name, in.Fence)
}
