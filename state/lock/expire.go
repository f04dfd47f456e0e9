package lock

import (
	"context"
	"strings"

	"github.com/thole-dev/thole"
)

// expire frees a lock that its holder did not renew in time, or removes a waiter whose
// sign of life expired. The next waiter gets the event and takes the lock. A holder that
// is only late is fenced off.
func expire(ctx context.Context, sp *thole.Space, rec thole.Record) error {
	lease, isBeat := strings.CutSuffix(rec.Key, "/beat")
	_, err := sp.Update(ctx, func(tx *thole.Tx) error {
		tx.Check(thole.Check{Key: rec.Key, At: rec.Version}) // it was not renewed meanwhile
		tx.Delete(rec.Key)
		if isBeat {
			return free(tx, lease)
		}
		if lock, ticket, ok := strings.Cut(rec.Key, "/wait/"); ok {
			var s sign
			if err := rec.As(&s); err != nil {
				return err
			}
			return leave(tx, lock, waiter{Ticket: ticket, party: s.party})
		}
		return nil
	})
	return err
}

// free ends the lease of a dead holder.
func free(tx *thole.Tx, lease string) error {
	l, err := tx.Lease(lease)
	if err != nil || l.Holder == "" {
		return err
	}
	lock, _, isIntent := strings.Cut(lease, "/intent/")
	c := Change{Owner: l.Holder, Mode: Exclusive}
	if isIntent {
		c.Mode = Intent
	}
	if c.Name, err = thole.UnescapeName(strings.TrimPrefix(lock, "lock/")); err != nil {
		return err
	}
	tx.Release(lease)
	tx.Emit(lock, TypeExpired, c)
	return nil
}
