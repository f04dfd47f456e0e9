package lock

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/thole-dev/thole"
)

// party is a holder of a lock or a waiter for it. Others can see and use the same owner
// name, so owners of different actors are different parties.
type party struct {
	Owner string `json:"owner"`
	Actor string `json:"actor,omitempty"` // "": written by an earlier version
}

// waiter is a place in a lock's queue.
type waiter struct {
	Ticket string `json:"ticket"`
	party
	Since time.Time `json:"since,omitzero"`
}

// sign is the value of a waiter's record: enough to clean up after it.
type sign struct {
	Lock string `json:"lock"` // base
	party
}

// edge is a wait in the wait-for graph, stored under the waiting party.
type edge struct {
	Lock   string `json:"lock"` // base
	Name   string `json:"name"`
	Ticket string `json:"ticket"`
}

func queueKey(base string) string        { return base + "/queue" }
func signKey(base, ticket string) string { return base + "/wait/" + ticket }

// edgesKey returns the key of the edges of p. It shortens the names: together they may be
// too long for a key, and an earlier version allowed any name.
func (p party) edgesKey() string {
	name := p.Owner
	if p.Actor != "" {
		name = url.PathEscape(p.Actor) + "/" + p.Owner
	}
	return "lockwaits/" + thole.KeyPart(name, thole.MaxNameBytes-len("lockwaits/"))
}

// enough bounds the waiters that are checked: each check counts against the commit's
// limit.
const enough = 100

// ahead counts the live waiters before the caller, or all of them if it is not queued.
// It checks the first enough ones and counts the rest as at least one live waiter; if
// they are dead, a sweep removes them.
func (a *attempt) ahead(tx *thole.Tx) (int, error) {
	var queue []waiter
	if _, err := tx.Load(queueKey(a.base), &queue); err != nil {
		return 0, err
	}
	n := 0
	for i, w := range queue {
		if w.Ticket == a.ticket {
			return n, nil
		}
		if i == enough {
			return max(n, 1), nil
		}
		alive, err := tx.Get(signKey(a.base, w.Ticket))
		if err != nil {
			return 0, err
		}
		if alive.Exists() && !a.dead[w.Owner] {
			a.inWay = append(a.inWay, w.Owner)
			n++
		}
	}
	return n, nil
}

// enqueue puts the caller at the end of the queue, or renews its sign of life if it is
// queued. Errors: ErrDeadlock if it would wait for ever.
func (a *attempt) enqueue(ctx context.Context) error {
	ticket := a.ticket
	if ticket == "" {
		ticket = thole.NewID("wait")
	}
	_, err := a.locks.sp.Update(ctx, func(tx *thole.Tx) error {
		if err := a.deadlock(tx); err != nil {
			return err
		}
		me := waiter{Ticket: ticket, party: a.me(), Since: tx.Now()}
		tx.Put(signKey(a.base, ticket), sign{Lock: a.base, party: me.party}, &thole.WriteOptions{Expires: tx.Expiry(waiterTTL)})
		var queue []waiter
		if _, err := tx.Load(queueKey(a.base), &queue); err != nil {
			return err
		}
		if slices.ContainsFunc(queue, func(w waiter) bool { return w.Ticket == ticket }) {
			return nil
		}
		// A caller that was removed as dead starts again at the end.
		tx.Put(queueKey(a.base), append(queue, me), nil)
		var edges []edge
		if _, err := tx.Load(me.edgesKey(), &edges); err != nil {
			return err
		}
		tx.Put(me.edgesKey(), append(edges, edge{Lock: a.base, Name: a.name, Ticket: ticket}), nil)
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for lock %q: %w", a.name, err)
	}
	a.ticket, a.queued = ticket, a.me()
	return nil
}

// leave removes a waiter, and dead ones before it, from the queue.
func leave(tx *thole.Tx, base string, me waiter) error {
	var queue []waiter
	if _, err := tx.Load(queueKey(base), &queue); err != nil {
		return err
	}
	gone := []waiter{me}
	for i, w := range queue {
		if w.Ticket == me.Ticket || len(gone) > 20 || i == enough {
			break
		}
		alive, err := tx.Get(signKey(base, w.Ticket))
		if err != nil {
			return err
		}
		if !alive.Exists() {
			gone = append(gone, w)
		}
	}
	is := func(t string) bool { return slices.ContainsFunc(gone, func(w waiter) bool { return w.Ticket == t }) }
	rest := slices.DeleteFunc(queue, func(w waiter) bool { return is(w.Ticket) })
	put(tx, queueKey(base), rest)
	for _, w := range gone {
		tx.Delete(signKey(base, w.Ticket))
		var edges []edge
		if _, err := tx.Load(w.edgesKey(), &edges); err != nil {
			return err
		}
		put(tx, w.edgesKey(), slices.DeleteFunc(edges, func(e edge) bool { return is(e.Ticket) }))
	}
	return nil
}

// put stores a list; an empty one has no record.
func put[T any](tx *thole.Tx, key string, list []T) {
	if len(list) == 0 {
		tx.Delete(key)
	} else {
		tx.Put(key, list, nil)
	}
}
