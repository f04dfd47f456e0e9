package thole

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/journal"
)

// A commit to another space goes through an outbox, in three commits:
//
//	first space    outbox/<id>  message   with what decided to send it
//	second space   sent/<id>    verdict   applied, with the message's commit; or refused, alone
//	first space    outbox/<id>  deleted   with the event that the verdict calls for
//
// The second commit checks that there is no verdict yet, so of any number of deliveries
// exactly one decides. The third commit reports that verdict. Normally the sender's
// Store delivers the message right away. The message has expired from the start, so
// after a crash at any point the sweeper finishes the delivery. The verdict is never
// deleted, so that a repeated delivery, however late, finds it.
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

// sentWrite is a Write whose Value, if nil (it deletes), is omitted in JSON.
type sentWrite struct {
	Write
	Value      json.RawMessage `json:"value,omitempty"`
	OldExpires time.Time       `json:"expires,omitzero"` // Expires in a message of an earlier version
}

// verdict is the record sent/<id>. The null of an older version means applied.
type verdict struct {
	Refused string `json:"refused,omitempty"` // the reason; "": it was applied
}

// Refused is the data of the event outbox.refused.
type Refused struct {
	ID    string `json:"id"`
	To    string `json:"to"`
	Error string `json:"error"`
}

// SendOptions are options of [Tx.Send]: events to emit in the sender's own space. Their
// Position, Time, Actor and Cause are ignored.
type SendOptions struct {
	Delivered *Event // emitted when the commit was applied; nil: no event
	Refused   *Event // emitted when it was refused; nil: outbox.refused with [Refused], in the stream outbox/<id>
}

// Send sends c, a commit to the space to, and returns the message's id. If this Tx is
// committed, c is applied exactly once: before Update returns, or, if that fails, later
// by the sweeper of any Store. It has the same actor and cause, but not this Tx's
// fences.
//
// If a check of c does not hold, or c is invalid, it is refused: nothing of it is
// applied, and it is not tried again. Do not use checks in a commit that must be
// applied. Update fails with ErrTooLarge if c has more than 512 KiB as JSON, because a
// message is one record, and with ErrInvalid if c touches a name that is [Reserved] or
// the name of the space is malformed. Nil opts are the zero SendOptions.
func (tx *Tx) Send(to string, c Commit, opts *SendOptions) (id string) {
	id = NewID("out")
	m := message{To: to, Actor: tx.sp.actor, Cause: tx.sp.cause, Checks: c.Checks, Events: c.Events}
	for _, w := range c.Writes {
		m.Writes = append(m.Writes, sentWrite{Write: w, Value: w.Value})
	}
	if opts != nil {
		m.Delivered, m.Refused = opts.Delivered, opts.Refused
	}
	err := m.check(id)
	if err == nil {
		err = tx.sp.store.admit(tx.ctx, to)
	}
	if err != nil {
		tx.fail(fmt.Errorf("send to %s: %w", to, err))
	}
	tx.Put("outbox/"+id, m, &WriteOptions{Expires: tx.now})
	tx.sent = append(tx.sent, "outbox/"+id)
	return id
}

// check finds, before the message is sent, why it would be refused.
func (m *message) check(id string) error {
	if err := m.addressed(); err != nil {
		return err
	}
	c := m.commit().Clone()
	if AnyReserved(c.Names()) {
		return invalidf("a message cannot touch what belongs to the kernel")
	}
	decide(&c, id, verdict{}) // counts towards the limits
	if _, err := checkCommit(&c); err != nil {
		return err
	}
	for _, e := range []*Event{m.Delivered, m.Refused} {
		if e == nil {
			continue
		}
		outcome := *e
		if err := checkEvent(&outcome); err != nil {
			return err
		}
		if Reserved(e.Stream) {
			return invalidf("the outcome of a message cannot be in the stream %.80q, which belongs to the kernel", e.Stream)
		}
	}
	return nil
}

// addressed returns an error if neither the message's commit nor a refusal can be
// committed: a malformed space, actor or cause.
func (m *message) addressed() error {
	if err := journal.CheckAnySpaceName(m.To); err != nil {
		return err
	}
	if err := journal.CheckOptionalName("actor", m.Actor); err != nil {
		return err
	}
	return journal.CheckOptionalName("cause", m.Cause)
}

// commit returns the message's commit, without a verdict.
func (m *message) commit() Commit {
	c := Commit{Checks: slices.Clone(m.Checks), Events: slices.Clone(m.Events)}
	for _, w := range m.Writes {
		w.Write.Value = w.Value
		if w.Expires.IsZero() {
			w.Expires = w.OldExpires
		}
		c.Writes = append(c.Writes, w.Write)
	}
	return c
}

// decide adds to c the verdict of message id, and a check that there is none yet.
func decide(c *Commit, id string, v verdict) {
	data, _ := marshal(v) // one string: cannot fail
	c.Checks = slices.Insert(c.Checks, 0, Check{Key: "sent/" + id})
	c.Writes = append(c.Writes, Write{Key: "sent/" + id, Value: data})
}

// deliver is the Expirer of outbox records. It validates the message again, because it
// cannot know who wrote the record.
func (s *Store) deliver(ctx context.Context, sp *Space, rec Record) error {
	id := strings.TrimPrefix(rec.Key, "outbox/")
	var m message
	var v verdict
	err := rec.As(&m)
	if err == nil {
		err = m.addressed()
	}
	if err == nil {
		if err = s.admit(ctx, m.To); err != nil && !errors.Is(err, ErrInvalid) {
			return fmt.Errorf("deliver %s: %w", rec.Key, err)
		}
	}
	if err != nil { // no space can hold a verdict, but every delivery fails in the same way
		m, v.Refused = message{Actor: sp.actor}, err.Error()
	} else if v, err = s.verdict(ctx, id, &m); err != nil {
		return fmt.Errorf("deliver %s: %w", rec.Key, err)
	}
	c := Commit{Checks: []Check{{Key: rec.Key, At: rec.Version}}, Writes: []Write{{Key: rec.Key}}}
	outcome := m.Delivered
	if v.Refused != "" {
		outcome = m.Refused
	}
	if outcome != nil && (checkEvent(outcome) != nil || Reserved(outcome.Stream)) {
		outcome = nil
	}
	if outcome == nil && v.Refused != "" {
		data, err := marshal(Refused{ID: id, To: m.To, Error: v.Refused})
		if err != nil {
			return err
		}
		outcome = &Event{Stream: rec.Key, Type: "outbox.refused", Data: data}
	}
	if outcome != nil {
		c.Events = []Event{*outcome}
	}
	_, err = sp.As(m.Actor).Because(m.Cause).commit(ctx, c)
	return err
}

// verdict commits the message or its refusal to the second space, unless that has a
// verdict already, and returns the verdict.
func (s *Store) verdict(ctx context.Context, id string, m *message) (verdict, error) {
	to := s.Space(m.To).As(m.Actor).Because(m.Cause)
	try := func(c Commit, v verdict) (verdict, error) {
		decide(&c, id, v)
		_, err := to.commit(ctx, c)
		var conflict *ConflictError
		if errors.As(err, &conflict) && conflict.Check.Key == "sent/"+id {
			return to.decided(ctx, id)
		}
		return v, err
	}
	v, err := verdict{}, m.check(id)
	if err == nil {
		v, err = try(m.commit(), verdict{})
	}
	if errors.As(err, new(*ConflictError)) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooLarge) {
		// Refuse it, unless another delivery has applied it meanwhile.
		return try(Commit{}, verdict{Refused: err.Error()})
	}
	return v, err
}

// decided reads the verdict of a message to sp.
func (sp *Space) decided(ctx context.Context, id string) (v verdict, err error) {
	rec, err := sp.Get(ctx, "sent/"+id)
	if err == nil && !rec.Exists() {
		err = fmt.Errorf("%w: the verdict is gone; its space may have been purged", ErrUnavailable)
	}
	if err == nil {
		err = rec.As(&v)
	}
	return v, err
}

// deliverNow tries to deliver the messages of an Update. If that fails, the sweeper
// delivers them.
func (sp *Space) deliverNow(ctx context.Context, keys []string) {
	for _, key := range keys {
		if err := sp.expire(ctx, key); err != nil {
			sp.store.log.Info("not delivered yet; the sweeper will", "space", sp.name, "key", key, "error", err)
			return
		}
	}
}
