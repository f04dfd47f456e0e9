// Package reminder is the concept that CONTRIBUTING.md explains: small, and complete.
// Tests give it to stores and servers to prove that nothing else has to know of a
// concept; no program does.
package reminder

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/thread"
)

// The types of this package's events.
const (
	TypeSet     = "reminder.set"     // holds a [Reminder]
	TypeCleared = "reminder.cleared" // holds a [Cleared]
	TypeDue     = "reminder.due"     // holds a [Due]
)

// Reminder is a text that comes up in a thread at a time. It is the value of its record,
// the data of events, and what clients get.
type Reminder struct {
	ID     string    `json:"id"`
	Thread string    `json:"thread"`
	Text   string    `json:"text"`
	Due    time.Time `json:"due_at"`
}

// Cleared is the data of reminder.cleared.
type Cleared struct {
	ID string `json:"id"`
}

// Due is the data of reminder.due.
type Due struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Reminders are the reminders of one space.
type Reminders struct{ sp *thole.Space }

// In returns the reminders of sp, whose store must have been given [Concept].
func In(sp *thole.Space) *Reminders { return &Reminders{sp: sp.For(Name)} }

func key(id string) string { return "reminder/" + id }

// Set sets a reminder and returns it. A repeat under an idempotency key returns the first
// one. Errors: ErrNotFound (the thread), ErrInvalid for a bad id or no text.
func (rs *Reminders) Set(ctx context.Context, threadID, text string, due time.Time) (Reminder, error) {
	ctx = thole.Call(ctx, "reminder.set", threadID)
	if text == "" {
		return Reminder{}, fmt.Errorf("%w: a reminder needs a text", thole.ErrInvalid)
	}
	r := Reminder{ID: thole.NewID("rem"), Thread: threadID, Text: text, Due: due.UTC()}
	r, _, err := thole.Update(ctx, rs.sp, func(tx *thole.Tx) (Reminder, error) {
		if _, err := thread.Load(tx, threadID); err != nil {
			return r, err
		}
		tx.Put(key(r.ID), r, &thole.WriteOptions{Expires: due})
		tx.Emit(thread.Key(threadID), TypeSet, r)
		return r, nil
	})
	return r, err
}

// Get returns a reminder. Errors: ErrNotFound, ErrInvalid for a bad id.
func (rs *Reminders) Get(ctx context.Context, id string) (Reminder, error) {
	if err := thole.CheckID("rem", id); err != nil {
		return Reminder{}, err
	}
	rec, err := rs.sp.Get(ctx, key(id))
	if err == nil && !rec.Exists() {
		err = fmt.Errorf("reminder %s: %w", id, thole.ErrNotFound)
	}
	if err != nil {
		return Reminder{}, err
	}
	var r Reminder
	return r, rec.As(&r)
}

// List returns reminders in the order of their ids, after the given one. It
// leaves out those that cannot be read.
func (rs *Reminders) List(ctx context.Context, after string, limit int) (thole.PageOf[Reminder], error) {
	q := thole.ListQuery{Prefix: key(""), Limit: journal.PageLimit(limit)}
	if after != "" {
		q.After = key(after)
	}
	recs, err := rs.sp.List(ctx, q)
	if err != nil {
		return thole.PageOf[Reminder]{}, err
	}
	var page thole.PageOf[Reminder]
	for _, rec := range recs {
		var r Reminder
		switch err := rec.As(&r); {
		case rs.sp.LeavesOut(rec, err):
			continue
		case err != nil:
			return thole.PageOf[Reminder]{}, err
		}
		page.Items = append(page.Items, r)
	}
	if len(recs) == q.Limit {
		page.Next = strings.TrimPrefix(recs[len(recs)-1].Key, key(""))
	}
	return page, nil
}

// Clear deletes a reminder before its time. Errors: ErrNotFound, ErrInvalid.
func (rs *Reminders) Clear(ctx context.Context, id string) error {
	ctx = thole.Call(ctx, "reminder.clear", id)
	if err := thole.CheckID("rem", id); err != nil {
		return err
	}
	_, _, err := thole.Update(ctx, rs.sp, func(tx *thole.Tx) (struct{}, error) {
		var r Reminder
		found, err := tx.Load(key(id), &r)
		if err == nil && !found {
			err = fmt.Errorf("reminder %s: %w", id, thole.ErrNotFound)
		}
		if err != nil {
			return struct{}{}, err
		}
		tx.Delete(key(id))
		return struct{}{}, r.tell(tx, TypeCleared, Cleared{ID: id})
	})
	return err
}

// tell emits an event in r's thread, unless that has ended.
func (r *Reminder) tell(tx *thole.Tx, typ string, data any) error {
	head, err := tx.Get(thread.Key(r.Thread))
	if err == nil && head.Exists() {
		tx.Emit(thread.Key(r.Thread), typ, data)
	}
	return err
}

// expire ends a reminder whose time has come.
func expire(ctx context.Context, sp *thole.Space, rec thole.Record) error {
	var r Reminder
	if err := rec.As(&r); err != nil {
		return err
	}
	_, err := sp.Update(ctx, func(tx *thole.Tx) error {
		tx.Check(thole.Check{Key: rec.Key, At: rec.Version})
		tx.Delete(rec.Key)
		return r.tell(tx, TypeDue, Due{ID: r.ID, Text: r.Text})
	})
	return err
}
