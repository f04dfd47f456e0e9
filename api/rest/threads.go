package rest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal/problem"
	"github.com/thole-dev/thole/state/thread"
)

func threadOperations() []operation {
	const all, one = "/v1/spaces/{space}/threads", "/v1/spaces/{space}/threads/{thread}"
	noParent := failure{thole.ErrNotFound, "there is no thread with the id parent"}
	busy := failure{thole.ErrConflict, "a run is working on the last turn"}
	return []operation{
		{id: "createThread", method: "POST", path: all, access: write, status: 201, location: all + "/{id}",
			summary: "Create a thread", does: does(createThread), failures: []failure{noParent}},
		{id: "listThreads", method: "GET", path: all, access: read, scoped: true,
			summary: "List the threads, without their messages", does: does(listThreads)},
		{id: "getThread", method: "GET", path: one, access: read,
			summary: "Read a thread's head", does: does(getThread)},
		{id: "updateThread", method: "PATCH", path: one, access: write,
			summary: "Change a thread's head", does: does(updateThread)},
		{id: "deleteThread", method: "DELETE", path: one, access: write,
			summary: "Destroy a thread with all that belongs to it", does: does(deleteThread)},

		{id: "postMessage", method: "POST", path: one + "/messages", access: write, works: true, status: 201,
			summary: "Post a message; the ETag is the thread's version", does: does(postMessage), failures: []failure{busy}},
		{id: "listMessages", method: "GET", path: one + "/messages", access: read,
			summary: "Read the conversation as messages, oldest first", does: does(listMessages)},
		{id: "postTurn", method: "POST", path: one + "/turns", access: write, works: true, status: 201,
			summary: "Post a turn: a request and, if it is known, the response to it", does: does(postTurn), failures: []failure{busy}},
		{id: "listTurns", method: "GET", path: one + "/turns", access: read,
			summary: "Read the conversation as turns, oldest first", does: does(listTurns)},
		{id: "compactThread", method: "POST", path: one + "/compact", access: write,
			summary: "Replace all turns up to one that has ended by a summary", does: does(compactThread),
			failures: []failure{{thole.ErrConflict, "the turn has not ended"}}},
	}
}

// threadStream returns the name of a thread's stream, which is also the key of its
// head.
func threadStream(id string) string { return thread.Key(id) }

// NewThread describes a thread to create.
type NewThread struct {
	thread.CreateOptions
	TTL int64 `json:"ttl,omitempty" min:"0" max:"3162240000" doc:"seconds after its last change; 0: it stays"`
}

type createThreadIn struct {
	Body NewThread `body:"optional"`
}

func createThread(c *call, in createThreadIn) (*thread.Thread, error) {
	o := in.Body.CreateOptions
	o.TTL = time.Duration(in.Body.TTL) * time.Second
	if o.Parent != "" {
		if err := c.below(o.Parent, &o); err != nil {
			return nil, err
		}
	}
	return thread.In(c.space).Create(c.ctx, &o)
}

// below sets o to create a thread below parent. It returns ErrForbidden for a caller
// that could not enter the new thread.
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
	case !c.mayKnow(b.Visibility, b.Owner) && !c.worksIn(parent):
		return fmt.Errorf("%w: a sub-agent's thread is made by the owner of the parent, an admin, or under the fence of a run in the parent with a work grant", problem.ErrForbidden)
	case o.Visibility != "" && o.Visibility != b.Visibility:
		return invalid("/visibility", "%.40q is not for a sub-agent's thread, which begins as private", o.Visibility)
	}
	o.Parent, o.Owner, o.Visibility = b.Parent, b.Owner, b.Visibility
	if o.TTL == 0 {
		o.TTL = b.TTL
	}
	return nil
}

// mayKnow reports whether the caller may know of a thread with this visibility and owner.
func (c *call) mayKnow(visibility, owner string) bool {
	return c.private() == nil || thread.VisibleTo(c.actor, visibility, owner)
}

type listThreadsIn struct {
	paging
	Assistant string `query:"assistant" doc:"only the threads of this agent" example:"coder"`
	Children  bool   `query:"children" doc:"sub-agents' threads too"`
}

func listThreads(c *call, in listThreadsIn) (page[thread.Entry], error) {
	ts := thread.In(c.space)
	return pageOf(pick(in.paging, func(cursor string, limit int) (thole.PageOf[thread.Entry], error) {
		return ts.List(c.ctx, &thread.ListOptions{Limit: limit, Cursor: cursor, Assistant: in.Assistant, Children: in.Children})
	}, func(t thread.Entry) bool {
		return c.scope.Thread(t.ID) && c.mayKnow(t.Visibility, t.Owner)
	}, func(t thread.Entry) string { return t.ID }))
}

func getThread(c *call, in ofThread) (*thread.Thread, error) {
	return thread.In(c.space).Get(c.ctx, in.Thread)
}

type updateThreadIn struct {
	ofThread
	ifMatch
	Body thread.Patch
}

func updateThread(c *call, in updateThreadIn) (*thread.Thread, error) {
	ts := thread.In(c.space)
	if in.Body.Visibility != nil && !c.isAdmin(c.space.Name()) {
		t, err := ts.Get(c.ctx, in.Thread)
		if err != nil {
			return nil, err
		}
		if t.Owner == "" || t.Owner != c.actor {
			return nil, fmt.Errorf("%w: who sees a thread is for its owner and admins to say", problem.ErrForbidden)
		}
	}
	return ts.Patch(c.ctx, in.Thread, in.Body, &thread.PatchOptions{IfMatch: in.IfMatch.at})
}

type deleteThreadIn struct {
	ofThread
	ifMatch
}

func deleteThread(c *call, in deleteThreadIn) (none, error) {
	return none{}, thread.In(c.space).Destroy(c.ctx, in.Thread, &thread.DestroyOptions{IfMatch: in.IfMatch.at})
}

// NewMessage is a message to post.
type NewMessage struct {
	Role   string     `json:"role" enum:"user|assistant|system"`
	Blocks []NewBlock `json:"blocks"`
}

// NewBlock is a block of a message to post. It cannot be a tool call, which only a run
// makes. It has no id: the server makes the ids of a message's blocks.
type NewBlock struct {
	Type    string                     `json:"type" enum:"text|image|file|code|reasoning|status|error|summary"`
	Content string                     `json:"content,omitempty" doc:"text; of an image or file its URL or blob" example:"Hello"`
	Meta    map[string]json.RawMessage `json:"meta,omitempty"`
}

func (b NewBlock) block() thread.Block {
	return thread.Block{Type: b.Type, Content: b.Content, Meta: b.Meta}
}

type postMessageIn struct {
	ofThread
	ifMatch
	Body NewMessage
}

func postMessage(c *call, in postMessageIn) (*thread.Appended, error) {
	m := thread.Message{Role: in.Body.Role, Blocks: blocks(in.Body.Blocks)}
	return thread.In(c.space).Append(c.ctx, in.Thread, m, &thread.AppendOptions{IfMatch: in.IfMatch.at})
}

// NewTurn is a complete turn, made outside of a run.
type NewTurn struct {
	Request  []NewBlock `json:"request" doc:"what the user said"`
	Response []NewBlock `json:"response,omitempty" doc:"the answer; without it the turn waits for a message or a run"`
}

type postTurnIn struct {
	ofThread
	ifMatch
	Body NewTurn
}

// PostedTurn is a posted turn and the thread's version after it.
type PostedTurn struct {
	thread.Turn
	Version thole.Position `json:"-" header:"ETag"`
}

// postTurn posts the user's message and the answer to it. Only a run can write a turn piece
// by piece.
func postTurn(c *call, in postTurnIn) (PostedTurn, error) {
	t, version, err := thread.In(c.space).Post(c.ctx, in.Thread, blocks(in.Body.Request), blocks(in.Body.Response), &thread.AppendOptions{IfMatch: in.IfMatch.at})
	if err != nil {
		return PostedTurn{}, err
	}
	return PostedTurn{Turn: *t, Version: version}, nil
}

// blocks returns the blocks of a body; nil if it has none, not even an empty list.
func blocks(list []NewBlock) (out []thread.Block) {
	if list != nil {
		out = make([]thread.Block, len(list))
	}
	for i, b := range list {
		out[i] = b.block()
	}
	return out
}

type history struct {
	ofThread
	Last   int            `query:"last" min:"1" max:"1000" doc:"at most this many, the newest; default 50"`
	Limit  int            `query:"limit" min:"1" max:"1000" doc:"the same as last"`
	Cursor string         `query:"cursor" doc:"next_cursor of the page before, for older items"`
	At     thole.Position `query:"at" doc:"as the history was at this position"`
}

func (in history) query() (*thread.Query, error) {
	if in.Last > 0 && in.Limit > 0 {
		return nil, invalid("limit", "and last are two names of one thing")
	}
	return &thread.Query{Cursor: in.Cursor, At: in.At, Last: in.Last + in.Limit}, nil
}

func listMessages(c *call, in history) (page[*thread.Message], error) {
	q, err := in.query()
	if err != nil {
		return page[*thread.Message]{}, err
	}
	return pageOf(thread.In(c.space).Messages(c.ctx, in.Thread, q))
}

func listTurns(c *call, in history) (page[*thread.Turn], error) {
	q, err := in.query()
	if err != nil {
		return page[*thread.Turn]{}, err
	}
	return pageOf(thread.In(c.space).Turns(c.ctx, in.Thread, q))
}

// Compaction says which turns a summary replaces.
type Compaction struct {
	UpTo    string `json:"upto" doc:"the last turn that the summary replaces" example:"turn_019f3a5e0c7d7b4e9a51c7e2f0a4b8d6"`
	Summary string `json:"summary" example:"They agreed on a blue button."`
}

type compactThreadIn struct {
	ofThread
	Body Compaction
}

func compactThread(c *call, in compactThreadIn) (none, error) {
	return none{}, thread.In(c.space).Compact(c.ctx, in.Thread, in.Body.UpTo, in.Body.Summary)
}
