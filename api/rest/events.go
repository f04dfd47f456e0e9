package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/internal/look"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/journal/problem"
)

func eventOperations() []operation {
	const one = "/v1/spaces/{space}/events"
	full := failure{problem.ErrRateLimited, "the space has the maximum number of watchers"}
	return []operation{
		{id: "listEvents", method: "GET", path: one, access: read, scoped: true,
			summary: "Read the journal, or watch it with Accept: text/event-stream",
			does:    does(listEvents), streams: streams(watchSpace), failures: []failure{full}},
		{id: "listThreadEvents", method: "GET", path: "/v1/spaces/{space}/threads/{thread}/events", access: read,
			summary: "Read the thread's events, or watch them with Accept: text/event-stream",
			does:    does(listThreadEvents), streams: streams(watchThread), failures: []failure{full}},
		{id: "watchSpaces", method: "GET", path: "/v1/events", access: anyToken, needs: "a grant to read each of the spaces", status: http.StatusOK,
			summary: "Watch several spaces over one connection (text/event-stream)",
			does:    does(mustStream), streams: streams(watchSpaces), failures: []failure{full, {notAcceptable(), "the client does not accept text/event-stream"}}},
		{id: "addEvent", method: "POST", path: one, access: write, status: 201,
			summary: "Add an application event", does: does(addEvent)},
		{id: "commit", method: "POST", path: "/v1/spaces/{space}/commits", access: write, status: 201,
			summary: "Commit checks, events and records below app/ as one step", does: does(commit),
			failures: []failure{{journal.ErrConflict, "a check does not hold; current is the current version"}, {journal.ErrNotFound, "there is no such thread, or it is hidden from this caller"}}},
	}
}

// eventQuery selects events of a journal.
type eventQuery struct {
	Limit  int               `query:"limit" default:"100" min:"1" max:"1000" doc:"at most this many items"`
	Cursor journal.Position  `query:"cursor" doc:"next_cursor of the page before"`
	After  *journal.Position `query:"after" empty:"from the oldest" doc:"only events after this position"`
	Before journal.Position  `query:"before" doc:"only events before this position"`
	Order  string            `query:"order" default:"asc" enum:"asc|desc" doc:"desc: newest first"`
	ofTypes
	Actor string    `query:"actor" doc:"only events of this actor" example:"user:42"`
	Since time.Time `query:"since" doc:"only events at or after this time"`
	Until time.Time `query:"until" doc:"only events before this time"`
}

func (in *eventQuery) query() thole.ReadQuery {
	q := thole.ReadQuery{
		Limit: in.Limit, Before: in.Before, Backward: in.Order == "desc", Types: in.Types, Actor: in.Actor, Since: in.Since, Until: in.Until,
	}
	if in.After != nil {
		q.After = *in.After
	}
	switch {
	case in.Cursor.IsZero():
	case q.Backward:
		q.Before = in.Cursor
	default:
		q.After = in.Cursor
	}
	return q
}

type listEventsIn struct {
	eventQuery
	ofStreams
}

func listEvents(c *call, in listEventsIn) (page[event], error) {
	return c.readEvents(in.query(), in.Streams...)
}

type listThreadEventsIn struct {
	ofThread
	eventQuery
}

func listThreadEvents(c *call, in listThreadEventsIn) (page[event], error) {
	if err := c.everWas(in.Thread); err != nil {
		return page[event]{}, err
	}
	return c.readEvents(in.query(), threadStream(in.Thread))
}

// readEvents returns a page of events of the call's space: of the given streams, or
// of all that the caller may see.
func (c *call) readEvents(q thole.ReadQuery, streams ...string) (page[event], error) {
	privacy := c.private()
	streams, err := c.visible(streams)
	if err != nil {
		return page[event]{}, err
	}
	if len(streams) == 1 && !strings.HasSuffix(streams[0], "*") {
		q.Stream = streams[0]
		if privacy.hidesStream(q.Stream) { // does not disclose even its length
			return pageOf(thole.PageOf[event]{}, nil)
		}
	}
	var out thole.PageOf[event]
	limit := q.Limit
	var budget look.Budget
	for {
		q.Limit = budget.Page(limit)
		p, err := c.space.Read(c.ctx, q)
		if err != nil {
			return page[event]{}, err
		}
		privacy.forget() // an event just read may have come after its thread became private
		if len(p.Events) < q.Limit {
			// The store has read many events that the query does not select.
			budget.Took(look.MaxItems/8, 0)
		}
		for i, e := range p.Events {
			budget.Took(1, len(e.Data))
			if !shows(streams, e.Stream) || privacy.hides(&e) {
				continue
			}
			e, _ = privacy.maskEvent(&e)
			if out.Items = append(out.Items, c.api.event(&e)); len(out.Items) == limit {
				if i+1 < len(p.Events) {
					p.Next = e.Position
				}
				out.Next = p.Next.String()
				return pageOf(out, nil)
			}
		}
		budget.Took(0, privacy.took())
		if p.Next.IsZero() || budget.Spent() { // the cursor goes on
			out.Next = p.Next.String()
			return pageOf(out, nil)
		}
		if q.Backward {
			q.Before = p.Next
		} else {
			q.After = p.Next
		}
	}
}

// NewEvent is an application's event.
type NewEvent struct {
	Type    string          `json:"type" doc:"with a dot; its noun must not be one of Thole's own" example:"sync.file_written"`
	Data    json.RawMessage `json:"data,omitempty"`
	Stream  string          `json:"stream,omitempty" doc:"begins with app/; default app/events"`
	Subject string          `json:"subject,omitempty" doc:"the person whose data it holds"`
	Refs    []string        `json:"refs,omitempty" doc:"ids it refers to"`
	Schema  int             `json:"schema,omitempty" doc:"version of the shape of data"`
}

// Committed holds the positions of a commit.
type Committed struct {
	First    thole.Position `json:"first,omitzero" doc:"position of the first event"`
	Position thole.Position `json:"position" header:"ETag" doc:"of the last event; the version of what was written"`
}

type addEventIn struct {
	Body NewEvent
}

func addEvent(c *call, in addEventIn) (Committed, error) {
	e, err := c.applicationEvent(&in.Body, &in.Body)
	if err != nil {
		return Committed{}, err
	}
	return c.commit(thole.Commit{Events: []thole.Event{e}})
}

// NewCommit is a raw commit.
type NewCommit struct {
	Checks []thole.Check `json:"checks,omitempty" doc:"conditions; without at, the key or stream must be absent"`
	Events []NewEvent    `json:"events,omitempty"`
	Writes []thole.Write `json:"writes,omitempty" doc:"records to set or, without value, to delete" example:"[{\"key\":\"app/theme\",\"value\":\"dark\"}]"`
}

type commitIn struct {
	Body NewCommit
}

func commit(c *call, body commitIn) (Committed, error) {
	in := body.Body
	out := thole.Commit{Checks: in.Checks, Writes: in.Writes}
	for i := range in.Events {
		event, err := c.applicationEvent(&in, &in.Events[i])
		if err != nil {
			return Committed{}, err
		}
		out.Events = append(out.Events, event)
	}
	for i := range in.Checks {
		k := &in.Checks[i]
		name := &k.Key
		if k.Key == "" {
			name = &k.Stream
		}
		if err := c.ownGround(&in, name); err != nil {
			return Committed{}, err
		}
	}
	for i := range in.Writes {
		w := &in.Writes[i]
		if err := c.ownGround(&in, &w.Key); err != nil {
			return Committed{}, err
		}
		// Only its concept knows what the expiry of a record outside app/ entails.
		if !w.Expires.IsZero() && !strings.HasPrefix(w.Key, "app/") {
			return Committed{}, invalid(c.pointerTo(&in, &w.Expires), "is for records below app/")
		}
	}
	return c.commit(out)
}

func (c *call) commit(commit thole.Commit) (Committed, error) {
	res, err := c.space.Commit(c.ctx, commit)
	if err != nil {
		return Committed{}, err
	}
	if len(commit.Events) == 0 {
		res.First = thole.Position{}
	}
	return Committed{First: res.First, Position: res.Last}, nil
}

// applicationEvent makes the event of an application, which is in the given body. It
// refuses a type that could be mistaken for one of Thole's own.
func (c *call) applicationEvent(body any, in *NewEvent) (thole.Event, error) {
	noun, verb, dot := strings.Cut(in.Type, ".")
	if !dot || noun == "" || verb == "" {
		return thole.Event{}, invalid(c.pointerTo(body, &in.Type), "%.80q has no dot; it is noun.verb", in.Type)
	}
	if c.api.isOwn(in.Type) && !c.isAdmin(c.space.Name()) {
		return thole.Event{}, fmt.Errorf("%w: events such as %.80s are Thole's own", problem.ErrForbidden, in.Type)
	}
	if in.Stream == "" {
		in.Stream = "app/events"
	}
	if err := c.ownGround(body, &in.Stream); err != nil {
		return thole.Event{}, err
	}
	return thole.Event{Type: in.Type, Stream: in.Stream, Data: in.Data, Subject: in.Subject, Refs: in.Refs, Schema: in.Schema}, nil
}

// isOwn reports whether people could take an event of that type for one of the
// concepts' own: its noun is theirs, or, below app, the whole type. It ignores case and
// white space, as people do.
func (a *API) isOwn(typ string) bool {
	noun, verb, _ := strings.Cut(typ, ".")
	noun, verb = strings.TrimSpace(noun), strings.TrimSpace(verb)
	if slices.ContainsFunc(a.store.Concepts().Nouns(), func(own string) bool { return strings.EqualFold(own, noun) }) {
		return true
	}
	for own := range a.declared {
		if strings.EqualFold(own, noun+"."+verb) {
			return true
		}
	}
	return false
}

// ownGround refuses a name outside app/ in a raw commit, unless the caller is an
// admin of the space. The kernel's own names need an admin of all spaces. The name is a
// member of the given body.
func (c *call) ownGround(body any, member *string) error {
	name := *member
	if thole.Reserved(name) {
		if _, err := c.allowed("*", auth.Admin); err != nil {
			return fmt.Errorf("%w: %s: %.80q is the kernel's, which takes an admin grant on *", problem.ErrForbidden, c.pointerTo(body, member), name)
		}
		return nil
	}
	if c.isAdmin(c.space.Name()) {
		return nil
	}
	if strings.HasPrefix(name, "app/") {
		if id, known := c.api.store.Concepts().StreamThread(name); !known || id != "" {
			return c.mayAddTo(id)
		}
		return nil
	}
	return fmt.Errorf("%w: %s: %.80q is not below app/, which takes an admin grant", problem.ErrForbidden, c.pointerTo(body, member), name)
}
