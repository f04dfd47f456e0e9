package thole

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole/journal"
)

// Work over two spaces goes through an outbox, in three commits:
//
//	first space    outbox/<id>  message   with what decided to send it
//	second space   sent/<id>    verdict   applied, with the message's commit; or refused, alone
//	first space    outbox/<id>  deleted   with the event that the verdict calls for
//
// The second commit is made only if there is no verdict yet, so of all who
// deliver, at whatever time, one decides; the third says what the second space
// holds. The message expires at once, which makes the sweeper finish what a crash
// interrupted at any point; normally the sender's Store delivers right away. The
// verdict stays for good, so that a second delivery, however late, finds it.
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

// verdict is the record sent/<id>. The null of an older version means applied.
type verdict struct {
	Refused string `json:"refused,omitempty"` // why; "": it was applied
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
// is one record: c may have 512 KiB as JSON, else Update fails with ErrTooLarge;
// one that touches what is [Reserved], or goes to a space that may not be made, is
// ErrInvalid.
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

// check finds what would only be refused later.
func (m *message) check(id string) error {
	if err := m.addressed(); err != nil {
		return err
	}
	c := m.commit().Clone()
	if AnyReserved(c.Names()) {
		return invalidf("a message cannot touch what belongs to the kernel")
	}
	decide(&c, id, verdict{}) // which counts, too
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

// addressed reports what keeps every commit of the message's sender from the
// second space.
func (m *message) addressed() error {
	if err := journal.CheckAnySpaceName(m.To); err != nil {
		return err
	}
	if err := journal.CheckOptionalName("actor", m.Actor); err != nil {
		return err
	}
	return journal.CheckOptionalName("cause", m.Cause)
}

// commit is the message's commit, without a verdict.
func (m *message) commit() Commit {
	c := Commit{Checks: slices.Clone(m.Checks), Events: slices.Clone(m.Events)}
	for _, w := range m.Writes {
		w.Write.Value = w.Value
		c.Writes = append(c.Writes, w.Write)
	}
	return c
}

// decide makes c the commit that gives message id its verdict, if it has none.
func decide(c *Commit, id string, v verdict) {
	data, _ := marshal(v) // one string: cannot fail
	c.Checks = slices.Insert(c.Checks, 0, Check{Key: "sent/" + id})
	c.Writes = append(c.Writes, Write{Key: "sent/" + id, Value: data})
}

// deliver is the Expirer of outbox records. It looks again at what a message
// asks for: the record says nothing of who wrote it.
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
	if err != nil { // no space can decide it, and everyone comes to the same
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

// verdict makes the second space decide on a message, and returns what it
// decided, now or earlier.
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
		// Another may have come between, and found that it holds.
		return try(Commit{}, verdict{Refused: err.Error()})
	}
	return v, err
}

// decided reads the verdict on a message to sp.
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

// deliverNow tries to deliver what an Update sent. The sweeper does what fails.
func (sp *Space) deliverNow(ctx context.Context, keys []string) {
	for _, key := range keys {
		if err := sp.expire(ctx, key); err != nil {
			sp.store.log.Info("not delivered yet; the sweeper will", "space", sp.name, "key", key, "error", err)
			return
		}
	}
}
