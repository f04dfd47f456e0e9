package thole

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Work over two spaces goes through an outbox, in three commits:
//
//	first space    outbox/<id>  message   with what decided to send it
//	second space   sent/<id>    null      with the message's commit, at most once
//	first space    outbox/<id>  deleted   with the outcome's event
//
// The message expires at once, which makes the sweeper finish what a crash
// interrupted at any point; normally the sender's Store delivers right away.
// The receipt stays for good, so that a second delivery, however late, finds it.
type message struct {
	To        string      `json:"to"`
	Actor     string      `json:"actor"`
	Cause     string      `json:"cause,omitempty"`
	Checks    []Check     `json:"checks,omitempty"`
	Events    []Event     `json:"events,omitempty"`
	Writes    []sentWrite `json:"writes,omitempty"`
	Delivered *Event      `json:"delivered,omitempty"`
	Refused   *Event      `json:"refused,omitempty"`
}

// sentWrite is a Write whose Value, when absent, stays absent: it deletes.
type sentWrite struct {
	Write
	Value json.RawMessage `json:"value,omitempty"`
}

// Refused is the data of the event outbox.refused.
type Refused struct {
	ID    string `json:"id"`
	To    string `json:"to"`
	Error string `json:"error"`
}

// SendOptions of [Tx.Send]: events for the sender's own space. Position, Time,
// Actor and Cause are ignored.
type SendOptions struct {
	Delivered *Event // emitted once the commit was applied; nil: no event
	Refused   *Event // emitted once it was refused; nil: outbox.refused with [Refused], in the stream outbox/<id>
}

// Send makes c, a commit to the space to, happen exactly once, after this Tx
// was committed and only then: right away before Update returns, or else by the
// sweeper of any Store. It is made by the same actor, without this Tx's fences.
// It returns the message's id.
//
// When a check of c does not hold, or c is invalid, it is refused: nothing of it
// happens, nor is it tried again. Use no checks for what must arrive. A message
// is one record: c may have 512 KiB as JSON, else Update fails with ErrTooLarge.
// Nil opts are the zero options.
func (tx *Tx) Send(to string, c Commit, opts *SendOptions) (id string) {
	id = NewID("out")
	m := message{To: to, Actor: tx.sp.actor, Cause: tx.sp.cause, Checks: c.Checks, Events: c.Events}
	for _, w := range c.Writes {
		m.Writes = append(m.Writes, sentWrite{Write: w, Value: w.Value})
	}
	if opts != nil {
		m.Delivered, m.Refused = opts.Delivered, opts.Refused
	}
	if err := m.check(id); err != nil {
		tx.fail(fmt.Errorf("send to %s: %w", to, err))
	}
	tx.Put("outbox/"+id, m, &WriteOptions{Expires: tx.now})
	tx.sent = append(tx.sent, "outbox/"+id)
	return id
}

// check finds what would only be refused later.
func (m *message) check(id string) error {
	if err := checkSpaceName(m.To); err != nil {
		return err
	}
	c := m.commit(id).clone()
	if _, err := c.check(); err != nil {
		return err
	}
	for _, e := range []*Event{m.Delivered, m.Refused} {
		if e == nil {
			continue
		}
		outcome := *e
		if err := outcome.check(); err != nil {
			return err
		}
	}
	return nil
}

// commit is the message's commit, with its receipt.
func (m *message) commit(id string) Commit {
	receipt := "sent/" + id
	c := Commit{
		Checks: append([]Check{{Key: receipt}}, m.Checks...),
		Events: slices.Clone(m.Events),
		Writes: []Write{{Key: receipt, Value: json.RawMessage("null")}},
	}
	for _, w := range m.Writes {
		w.Write.Value = w.Value
		c.Writes = append(c.Writes, w.Write)
	}
	return c
}

// deliver is the Expirer of outbox records.
func (s *Store) deliver(ctx context.Context, sp *Space, rec Record) error {
	var m message
	if err := rec.As(&m); err != nil {
		return err
	}
	id := strings.TrimPrefix(rec.Key, "outbox/")
	_, err := s.Space(m.To).As(m.Actor).Because(m.Cause).commit(ctx, m.commit(id))
	var conflict *ConflictError
	outcome := m.Delivered
	switch {
	case err == nil:
	case errors.As(err, &conflict) && conflict.Check.Key == "sent/"+id:
		// An earlier delivery came this far.
	case errors.Is(err, ErrConflict), errors.Is(err, ErrInvalid), errors.Is(err, ErrTooLarge):
		if outcome = m.Refused; outcome == nil {
			data, marshalErr := marshal(Refused{ID: id, To: m.To, Error: err.Error()})
			if marshalErr != nil {
				return marshalErr
			}
			outcome = &Event{Stream: rec.Key, Type: "outbox.refused", Data: data}
		}
	default:
		return fmt.Errorf("deliver %s: %w", rec.Key, err)
	}
	c := Commit{Checks: []Check{{Key: rec.Key, At: rec.Version}}, Writes: []Write{{Key: rec.Key}}}
	if outcome != nil {
		c.Events = []Event{*outcome}
	}
	_, err = sp.As(m.Actor).Because(m.Cause).commit(ctx, c)
	return err
}

// deliverNow tries to deliver what an Update sent. The sweeper does what fails.
func (sp *Space) deliverNow(ctx context.Context, keys []string) {
	for _, key := range keys {
		if err := sp.expire(ctx, key); err != nil {
			sp.store.log.Info("not delivered yet; the sweeper will", "space", sp.name, "key", key, "error", err)
			return
		}
	}
}
