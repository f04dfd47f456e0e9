package rest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/internal/look"
)

func eventRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/spaces/{space}/events", tag: "events", access: read, scoped: true,
			query:   append(readParams(), oldParam{"stream", "string", "only this stream"}),
			summary: "Read the journal, or watch it with Accept: text/event-stream",
			do:      gives(func(c *call) (page[wireEvent], error) { return c.readEvents(c.list("stream")...) }),
			stream:  func(c *call) error { return c.watchSpace(c.list("stream")...) }},
		{method: "POST", path: "/v1/spaces/{space}/events", tag: "events", access: write, status: 201,
			summary: "Add an application event", do: takes(addEvent)},
		{method: "POST", path: "/v1/spaces/{space}/commits", tag: "events", access: write, status: 201,
			summary: "Commit checks, events and records below app/ as one step", do: takes(commit)},
		{method: "GET", path: "/v1/events", tag: "events", access: anyToken,
			query:   append(watchParams(), oldParam{"watch", "string", "the spaces, separated by commas; at most 32"}),
			summary: "Watch several spaces over one connection (text/event-stream)",
			do:      gives((*call).mustStream), stream: (*call).watchMany},
	}
}

// readParams are the query parameters of a journal, as pages or as a stream.
func readParams() []oldParam {
	return append(pagingParams(),
		oldParam{"after", "string", "only events after this position; of a stream: resume there, empty: from the oldest, absent: from now"},
		oldParam{"before", "string", "only events before this position"},
		oldParam{"order", "string", "asc (default) or desc: newest first"},
		oldParam{"types", "string", "only these types, separated by commas; noun.* stands for any verb"},
		oldParam{"channel", "string", "of an event stream: messages (the conversation: thread.*, message.*, run.*, tool.*) or sync (everything else)"},
		oldParam{"actor", "string", "only what this actor did"},
		oldParam{"since", "string", "only events at or after this time (RFC 3339)"},
		oldParam{"until", "string", "only events before this time (RFC 3339)"},
	)
}

// readEvents answers with a page of the call's space: of one stream, or of all
// that the caller may see.
func (c *call) readEvents(streams ...string) (page[wireEvent], error) {
	q, err := c.readQuery()
	if err != nil {
		return page[wireEvent]{}, err
	}
	privacy := c.private()
	streams, err = visible(c.scope, streams)
	if err != nil {
		return page[wireEvent]{}, err
	}
	if len(streams) == 1 && !strings.HasSuffix(streams[0], "*") {
		q.Stream = streams[0]
		if privacy.hidesStream(q.Stream) { // not even how far it goes
			return pageOf[wireEvent](nil, ""), nil
		}
	}
	var items []wireEvent
	limit := q.Limit
	var budget look.Budget
	for {
		q.Limit = budget.Page(limit)
		p, err := c.space.Read(c.ctx, q)
		if err != nil {
			return page[wireEvent]{}, err
		}
		privacy.forget() // what was just read may have happened after a thread became private
		if len(p.Events) < q.Limit {
			// The store has looked at many that the query does not select.
			budget.Took(look.MaxItems/8, 0)
		}
		for i, e := range p.Events {
			budget.Took(1, len(e.Data))
			if !shows(streams, e.Stream) || privacy.hides(&e) {
				continue
			}
			e, _ = privacy.maskEvent(&e)
			if items = append(items, toWire(e)); len(items) == limit {
				if i+1 < len(p.Events) {
					p.Next = e.Position
				}
				return pageOf(items, p.Next.String()), nil
			}
		}
		budget.Took(0, privacy.took())
		if p.Next.IsZero() || budget.Spent() { // the cursor goes on
			return pageOf(items, p.Next.String()), nil
		}
		if q.Backward {
			q.Before = p.Next
		} else {
			q.After = p.Next
		}
	}
}

func (c *call) readQuery() (q thole.ReadQuery, err error) {
	var errs [6]error
	q.Limit, errs[0] = c.limit(100)
	q.After, errs[1] = c.position("after")
	q.Before, errs[2] = c.position("before")
	q.Since, errs[3] = c.time("since")
	q.Until, errs[4] = c.time("until")
	cursor, err := c.position("cursor")
	errs[5] = err
	for _, err := range errs {
		if err != nil {
			return q, err
		}
	}
	switch order := c.arg("order"); order {
	case "", "asc":
	case "desc":
		q.Backward = true
	default:
		return q, invalid("order", "%.40q is neither asc nor desc", order)
	}
	if !cursor.IsZero() && q.Backward {
		q.Before = cursor
	} else if !cursor.IsZero() {
		q.After = cursor
	}
	q.Types, q.Actor = c.list("types"), c.arg("actor")
	return q, nil
}

// NewEvent is an application's event.
type NewEvent struct {
	Type    string          `json:"type" doc:"with a dot; its noun is none of Thole's own" example:"sync.file_written"`
	Data    json.RawMessage `json:"data,omitempty"`
	Stream  string          `json:"stream,omitempty" doc:"begins with app/; default app/events"`
	Subject string          `json:"subject,omitempty" doc:"the person whose data it holds"`
	Refs    []string        `json:"refs,omitempty" doc:"ids it refers to"`
	Schema  int             `json:"schema,omitempty" doc:"version of the shape of data"`
}

// Committed says where a commit is in the journal.
type Committed struct {
	First    thole.Position `json:"first,omitzero" doc:"position of the first event"`
	Position thole.Position `json:"position" doc:"of the last event; the version of what was written"`
}

func addEvent(c *call, in NewEvent) (Committed, error) {
	e, err := c.applicationEvent("/", in)
	if err != nil {
		return Committed{}, err
	}
	return c.commit(thole.Commit{Events: []thole.Event{e}})
}

// NewCommit is a raw commit.
type NewCommit struct {
	Checks []thole.Check `json:"checks,omitempty" doc:"what must hold; without at: must be absent"`
	Events []NewEvent    `json:"events,omitempty"`
	Writes []thole.Write `json:"writes,omitempty" doc:"without value: deletes"`
}

func commit(c *call, in NewCommit) (Committed, error) {
	out := thole.Commit{Checks: in.Checks, Writes: in.Writes}
	for i, e := range in.Events {
		event, err := c.applicationEvent(fmt.Sprintf("/events/%d/", i), e)
		if err != nil {
			return Committed{}, err
		}
		out.Events = append(out.Events, event)
	}
	for i, k := range in.Checks {
		if err := c.ownGround(fmt.Sprintf("/checks/%d", i), k.Key+k.Stream); err != nil {
			return Committed{}, err
		}
	}
	for i, w := range in.Writes {
		if err := c.ownGround(fmt.Sprintf("/writes/%d/key", i), w.Key); err != nil {
			return Committed{}, err
		}
		// Only its concept knows how a record below another key ends.
		if !w.Expires.IsZero() && !strings.HasPrefix(w.Key, "app/") {
			return Committed{}, invalid(fmt.Sprintf("/writes/%d/expires", i), "is for records below app/")
		}
	}
	return c.commit(out)
}

func (c *call) commit(commit thole.Commit) (Committed, error) {
	res, err := c.space.Commit(c.ctx, commit)
	if err != nil {
		return Committed{}, err
	}
	c.version(res.Last)
	if len(commit.Events) == 0 {
		res.First = thole.Position{}
	}
	return Committed{First: res.First, Position: res.Last}, nil
}

// applicationEvent checks that an event from outside can be mistaken for none
// of Thole's own.
func (c *call) applicationEvent(path string, in NewEvent) (thole.Event, error) {
	noun, verb, dot := strings.Cut(in.Type, ".")
	if !dot || noun == "" || verb == "" {
		return thole.Event{}, invalid(path+"type", "%.80q has no dot; it is noun.verb", in.Type)
	}
	if isOwn(in.Type) && !c.isAdmin(c.space.Name()) {
		return thole.Event{}, fmt.Errorf("%w: events such as %.80s are Thole's own", ErrForbidden, in.Type)
	}
	if in.Stream == "" {
		in.Stream = "app/events"
	}
	if err := c.ownGround(path+"stream", in.Stream); err != nil {
		return thole.Event{}, err
	}
	return thole.Event{Type: in.Type, Stream: in.Stream, Data: in.Data, Subject: in.Subject, Refs: in.Refs, Schema: in.Schema}, nil
}

// isOwn reports whether people may take an event of that type for one of Thole's
// own: case and white space make no difference to them.
func isOwn(typ string) bool {
	noun, verb, _ := strings.Cut(typ, ".")
	noun, verb = strings.TrimSpace(noun), strings.TrimSpace(verb)
	return slices.ContainsFunc(ownNouns(), func(own string) bool { return strings.EqualFold(own, noun) }) ||
		strings.EqualFold(noun, "app") && strings.EqualFold(verb, "expired")
}

// ownNouns are what Thole's own event types begin with. The frames "error" and
// "complete" have no dot, as no event from outside can.
func ownNouns() []string {
	return []string{"thread", "message", "run", "tool", "file", "todo", "lock", "document", "kv",
		"decision", "task", "memory", "credits", "agent", "space", "token", "outbox"}
}

// ownGround keeps commits from outside below app/, unless the caller is admin;
// what the kernel acts on is for admins of everything.
func (c *call) ownGround(field, name string) error {
	if thole.Reserved(name) {
		if _, err := c.allowed("*", auth.Admin); err != nil {
			return fmt.Errorf("%w: %s: %.80q is the kernel's, which takes an admin grant on *", ErrForbidden, field, name)
		}
		return nil
	}
	if c.isAdmin(c.space.Name()) {
		return nil
	}
	if id, ok := threadOf(name); ok && strings.HasPrefix(name, "app/") {
		return c.mayEnter(id)
	}
	if strings.HasPrefix(name, "app/") {
		return nil
	}
	return fmt.Errorf("%w: %s: %.80q is not below app/, which takes an admin grant", ErrForbidden, field, name)
}
