package rest

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

func threadRoutes() []route {
	const all, one = "/v1/spaces/{space}/threads", "/v1/spaces/{space}/threads/{thread}"
	history := []param{
		{"last", "integer", "at most this many, the newest; default 50"},
		{"limit", "integer", "the same as last"},
		{"cursor", "string", "next_cursor of the page before: what is older"},
		{"at", "string", "as the history was at this position"},
	}
	return []route{
		{method: "POST", path: all, tag: "threads", access: write, status: 201, summary: "Create a thread", do: mayTake(createThread)},
		{method: "GET", path: all, tag: "threads", access: read, scoped: true, summary: "List the threads, without what was said",
			query: append(pagingParams(),
				param{"assistant", "string", "only the threads of this agent"},
				param{"children", "boolean", "sub-agents' threads too"}), do: gives(listThreads)},
		{method: "GET", path: one, tag: "threads", access: read, etag: true, summary: "Read a thread's head", do: gives(getThread)},
		{method: "PATCH", path: one, tag: "threads", access: write, etag: true, summary: "Change a thread's head", do: takes(patchThread)},
		{method: "DELETE", path: one, tag: "threads", access: write, etag: true, summary: "Destroy a thread with all that belongs to it", do: gives(destroyThread)},

		{method: "POST", path: one + "/messages", tag: "threads", access: write, works: true, etag: true, status: 201,
			summary: "Post a message; the ETag is the thread's version", do: takes(postMessage)},
		{method: "GET", path: one + "/messages", tag: "threads", access: read, query: history,
			summary: "Read the conversation as messages, oldest first", do: gives(listMessages)},
		{method: "POST", path: one + "/turns", tag: "threads", access: write, works: true, etag: true, status: 201,
			summary: "Post a turn: a request and, if it is known, the response to it", do: takes(postTurn)},
		{method: "GET", path: one + "/turns", tag: "threads", access: read, query: history,
			summary: "Read the conversation as turns, oldest first", do: gives(listTurns)},
		{method: "POST", path: one + "/compact", tag: "threads", access: write,
			summary: "Let a summary stand for all turns up to one that has ended", do: takes(compactThread)},
		{method: "GET", path: one + "/events", tag: "threads", access: read, query: readParams(),
			summary: "Read the thread's events, or watch them with Accept: text/event-stream",
			do:      gives(func(c *call) (page[wireEvent], error) { return c.readEvents(threadStream(c.r.PathValue("thread"))) }),
			stream:  func(c *call) error { return c.watchSpace(threadStream(c.r.PathValue("thread"))) }},
	}
}

// threadStream is the name of a thread's stream, and the key of its head.
func threadStream(id string) string { return thread.Key(id) }

// threads returns the space's threads and the id of the one in the path.
func (c *call) threads() (*thread.Threads, string) {
	return thread.In(c.space), c.r.PathValue("thread")
}

// NewThread is what creating a thread takes.
type NewThread struct {
	Assistant  string                     `json:"assistant,omitempty" jsonschema:"description=the agent that answers in it"`
	Title      string                     `json:"title,omitempty"`
	Visibility string                     `json:"visibility,omitempty" jsonschema:"enum=space,enum=private"`
	Metadata   map[string]json.RawMessage `json:"metadata,omitempty"`
	TTL        int64                      `json:"ttl,omitempty" jsonschema:"description=seconds after its last change; 0: it stays"`
	RunScope   string                     `json:"run_scope,omitempty" jsonschema:"description=user: one active run per owner; default: per thread"`
	Parent     string                     `json:"parent,omitempty" jsonschema:"description=the thread of the run whose sub-agent works in it: it is private and of the same owner\\, and is destroyed with that thread"`
}

func createThread(c *call, in NewThread) (*thread.Thread, error) {
	ttl, err := seconds("ttl", float64(in.TTL), maxSeconds)
	if err != nil {
		return nil, err
	}
	o := thread.CreateOptions{
		Assistant: in.Assistant, Title: in.Title, Visibility: in.Visibility,
		Metadata: in.Metadata, TTL: ttl, RunScope: in.RunScope,
	}
	if in.Parent != "" {
		if err := c.below(in.Parent, &o); err != nil {
			return nil, err
		}
	}
	t, err := thread.In(c.space).Create(c.ctx, &o)
	if err != nil {
		return nil, err
	}
	c.created("threads", t.ID)
	c.version(t.Version)
	return t, nil
}

// below makes o a thread below parent: for those who may then enter it, and for
// nobody else.
func (c *call) below(parent string, o *thread.CreateOptions) error {
	if err := c.mayEnter(parent); err != nil {
		return err
	}
	p, err := thread.In(c.space).Get(c.ctx, parent)
	if err != nil {
		return err
	}
	b := thread.Below(p)
	switch {
	case !c.private().mayKnow(b.Visibility, b.Owner) && !c.worksIn(parent):
		return fmt.Errorf("%w: a sub-agent's thread is made by the owner of the parent, an admin, or under the fence of a run in the parent with a work grant", ErrForbidden)
	case o.Visibility != "" && o.Visibility != b.Visibility:
		return invalid("visibility", "%.40q is not for a sub-agent's thread, which begins as private", o.Visibility)
	}
	o.Parent, o.Owner, o.Visibility = b.Parent, b.Owner, b.Visibility
	if o.TTL == 0 {
		o.TTL = b.TTL
	}
	return nil
}

func listThreads(c *call) (page[thread.Entry], error) {
	limit, err := c.limit(100)
	if err != nil {
		return page[thread.Entry]{}, err
	}
	children, err := c.flag("children")
	if err != nil {
		return page[thread.Entry]{}, err
	}
	ts := thread.In(c.space)
	return pick(c, limit, func(cursor string, limit int) (looked[thread.Entry], error) {
		p, err := ts.List(c.ctx, &thread.ListOptions{Limit: limit, Cursor: cursor, Assistant: c.arg("assistant"), Children: children})
		return looked[thread.Entry]{p.Items, p.Next, limit, p.Bytes}, err
	}, func(t thread.Entry) bool {
		return c.scope.Thread(t.ID) && c.private().mayKnow(t.Visibility, t.Owner)
	}, func(t thread.Entry) string { return t.ID })
}

func getThread(c *call) (*thread.Thread, error) {
	ts, id := c.threads()
	t, err := ts.Get(c.ctx, id)
	if err != nil {
		return nil, err
	}
	c.version(t.Version)
	return t, nil
}

func patchThread(c *call, in thread.Patch) (*thread.Thread, error) {
	ts, id := c.threads()
	at, err := c.versionOf()
	if err != nil {
		return nil, err
	}
	if in.Visibility != nil && !c.isAdmin(c.space.Name()) {
		t, err := ts.Get(c.ctx, id)
		if err != nil {
			return nil, err
		}
		if t.Owner == "" || t.Owner != c.actor {
			return nil, fmt.Errorf("%w: who sees a thread is for its owner and admins to say", ErrForbidden)
		}
	}
	t, err := ts.Patch(c.ctx, id, in, &thread.PatchOptions{IfMatch: at})
	if err != nil {
		return nil, err
	}
	c.version(t.Version)
	return t, nil
}

func destroyThread(c *call) (none, error) {
	ts, id := c.threads()
	at, err := c.versionOf()
	if err != nil {
		return none{}, err
	}
	return none{}, ts.Destroy(c.ctx, id, &thread.DestroyOptions{IfMatch: at})
}

// NewMessage is a message to post.
type NewMessage struct {
	Role   string     `json:"role" jsonschema:"enum=user,enum=assistant,enum=system"`
	Blocks []NewBlock `json:"blocks"`
}

// NewBlock is a piece of a message to post. A tool's calls come from its run. It
// has no id: the server makes the ids of a message's blocks.
type NewBlock struct {
	Type    string                     `json:"type" jsonschema:"enum=text,enum=image,enum=file,enum=code,enum=reasoning,enum=status,enum=error,enum=summary"`
	Content string                     `json:"content,omitempty" jsonschema:"description=text; of an image or file its URL or blob"`
	Meta    map[string]json.RawMessage `json:"meta,omitempty"`
}

func (b NewBlock) block() thread.Block {
	return thread.Block{Type: b.Type, Content: b.Content, Meta: b.Meta}
}

func postMessage(c *call, in NewMessage) (*thread.Appended, error) {
	ts, id := c.threads()
	at, err := c.versionOf()
	if err != nil {
		return nil, err
	}
	posted, err := ts.Append(c.ctx, id, message(in.Role, in.Blocks), &thread.AppendOptions{IfMatch: at})
	if err != nil {
		return nil, err
	}
	c.version(posted.Version)
	return posted, nil
}

// NewTurn is a turn that was made elsewhere.
type NewTurn struct {
	Request  []NewBlock `json:"request" jsonschema:"description=what the user said"`
	Response []NewBlock `json:"response,omitempty" jsonschema:"description=what was answered; without it the turn waits for a message or a run"`
}

// postTurn posts the user's message and the answer to it in one commit. A turn
// that is written piece by piece belongs to a run.
func postTurn(c *call, in NewTurn) (*thread.Turn, error) {
	ts, id := c.threads()
	at, err := c.versionOf()
	if err != nil {
		return nil, err
	}
	res, err := c.space.Update(c.ctx, func(tx *thole.Tx) error {
		if err := thread.Require(tx, id, at); err != nil {
			return err
		}
		if _, err := thread.Append(tx, id, message(thread.User, in.Request)); err != nil || in.Response == nil {
			return err
		}
		_, err := thread.Append(tx, id, message(thread.Assistant, in.Response))
		return err
	})
	if err != nil {
		return nil, err
	}
	p, err := ts.Turns(c.ctx, id, &thread.Query{Last: 1, At: res.Last})
	if err != nil {
		return nil, err
	}
	c.version(res.Last)
	return p.Items[len(p.Items)-1], nil
}

func message(role string, blocks []NewBlock) thread.Message {
	m := thread.Message{Role: role}
	for _, b := range blocks {
		m.Blocks = append(m.Blocks, b.block())
	}
	return m
}

func (c *call) historyQuery() (*thread.Query, error) {
	at, err := c.position("at")
	if err != nil {
		return nil, err
	}
	q := &thread.Query{Cursor: c.arg("cursor"), At: at}
	for _, name := range []string{"last", "limit"} { // one word for it here, the other everywhere
		if s := c.arg(name); s != "" {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 {
				return nil, invalid(name, "%.40q is not a number from 1 to %d", s, thole.MaxPage)
			}
			q.Last = min(n, thole.MaxPage)
		}
	}
	return q, nil
}

func listMessages(c *call) (page[*thread.Message], error) {
	q, err := c.historyQuery()
	if err != nil {
		return page[*thread.Message]{}, err
	}
	ts, id := c.threads()
	p, err := ts.Messages(c.ctx, id, q)
	return pageOf(p.Items, p.Next), err
}

func listTurns(c *call) (page[*thread.Turn], error) {
	q, err := c.historyQuery()
	if err != nil {
		return page[*thread.Turn]{}, err
	}
	ts, id := c.threads()
	p, err := ts.Turns(c.ctx, id, q)
	return pageOf(p.Items, p.Next), err
}

// Compaction says what a summary stands for.
type Compaction struct {
	UpTo    string `json:"upto" jsonschema:"description=the last turn that the summary stands for"`
	Summary string `json:"summary"`
}

func compactThread(c *call, in Compaction) (none, error) {
	ts, id := c.threads()
	return none{}, ts.Compact(c.ctx, id, in.UpTo, in.Summary)
}
