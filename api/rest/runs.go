package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/journal/problem"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// Runner executes runs in this process.
type Runner interface {
	// Queued is called when a run of agent, made through the API, waits for a worker
	// in a space. It must not block; the runner claims the run later.
	Queued(space, agent string)
}

func runOperations() []operation {
	const all, one = "/v1/spaces/{space}/threads/{thread}/runs", "/v1/spaces/{space}/threads/{thread}/runs/{run}"
	const queue = "/v1/spaces/{space}/threads/{thread}/queue"
	return []operation{
		{id: "startRun", method: "POST", path: all, access: write, works: true, status: 201, location: all + "/{id}",
			summary: "Start a run, and with Accept: text/event-stream watch it",
			about:   "The stream has the thread's events until the event complete. If it breaks, repeat the request under the same Idempotency-Key: it watches the same run, from its beginning or after Last-Event-ID.",
			does:    does(startRun), streams: streams(streamRun),
			failures: []failure{{journal.ErrConflict, "another run is active and policy is reject, or the thread has no message to answer and no run"}}},
		{id: "listRuns", method: "GET", path: all, access: read, summary: "List the thread's runs", does: does(listRuns)},
		{id: "getRun", method: "GET", path: one, access: read, summary: "Read a run", does: does(getRun)},
		{id: "cancelRun", method: "POST", path: one + "/cancel", access: write,
			summary: "Ask a run and all runs below it to end; a second cancel changes nothing", does: does(cancelRun),
			failures: []failure{{journal.ErrConflict, "the run has ended, and nobody had cancelled it"}}},
		{id: "signalRun", method: "POST", path: one + "/signals", access: write,
			summary: "Send a signal to a run, before or while it waits for it", does: does(signalRun),
			failures: []failure{{journal.ErrConflict, "the run has ended, or too many signals of that name wait"}}},
		{id: "listQueue", method: "GET", path: queue, access: read, summary: "List the queued runs, in order", does: does(listQueue)},
		{id: "updateQueued", method: "PATCH", path: queue + "/{run}", access: write,
			summary: "Change a queued run; it keeps its position", does: does(updateQueued), failures: []failure{{journal.ErrConflict, "the run is no longer queued"}}},
		{id: "deleteQueued", method: "DELETE", path: queue + "/{run}", access: write,
			summary: "Take a run out of the queue", does: does(deleteQueued), failures: []failure{{journal.ErrConflict, "the run is no longer queued"}}},
	}
}

// ofRun is embedded by operations on a run.
type ofRun struct {
	ofThread
	Run string `path:"run" doc:"the id of the run" example:"run_019f3a5e0c7d7b4e9a51c7e2f0a4b8d6"`
}

// find returns the run, or ErrNotFound if the thread has no such run.
func (in ofRun) find(c *call) (*run.Run, error) { return c.runs().Of(c.ctx, in.Thread, in.Run) }

// NewRun asks for a run.
type NewRun struct {
	Prompt        string            `json:"prompt,omitempty" doc:"without it the last message is answered" example:"Add a test"`
	Blocks        []NewBlock        `json:"blocks,omitempty" doc:"of the user's message, after the prompt"`
	ChatHistory   []json.RawMessage `json:"chat_history,omitempty" doc:"sent to the model instead of the thread's earlier messages; the run still answers its prompt, its blocks or the thread's last message"`
	Attachments   []Attachment      `json:"attachments,omitempty"`
	FileStructure json.RawMessage   `json:"file_structure,omitempty" doc:"text or any JSON; sent to the model unchanged"`
	Agent         string            `json:"agent,omitempty" doc:"default: the thread's assistant"`
	Model         string            `json:"model,omitempty" doc:"default: the agent chooses"`
	Policy        string            `json:"policy,omitempty" enum:"enqueue|reject|interrupt|rollback" doc:"what happens if another run is active; enqueue if it is left out"`
	OnDisconnect  string            `json:"on_disconnect,omitempty" enum:"continue|cancel" doc:"what happens to a streaming run when its client disconnects; continue if it is left out"`
	Parent        string            `json:"parent,omitempty" doc:"the run whose sub-agent this is; the thread must have that run's thread as its parent"`
	ResumedFrom   string            `json:"resumed_from,omitempty" doc:"the ended run that this one resumes; agent, model, on_disconnect, timeout, and chat_history with file_structure are that run's if they are left out, empty or 0"`
	Timeout       float64           `json:"timeout,omitempty" min:"0" max:"3162240000" doc:"seconds from its start; 0: none, or with resumed_from that run's"`
}

// Attachment is an image or a file that comes with a prompt.
type Attachment struct {
	Name string `json:"name,omitempty"`
	Type string `json:"type,omitempty" doc:"media type"`
	URL  string `json:"url" doc:"a data URL, an http(s) URL, which only the model's service fetches, or the SHA-256 of a blob"`
}

// forAgent holds the parts of a request that only the agent understands. They are
// stored with the run as its options.
type forAgent struct {
	ChatHistory   []json.RawMessage `json:"chat_history,omitempty"`
	FileStructure string            `json:"file_structure,omitempty"`
}

func (in *NewRun) request() (run.Request, error) {
	timeout, err := seconds("/timeout", in.Timeout)
	if err != nil {
		return run.Request{}, err
	}
	req := run.Request{
		Prompt: in.Prompt, Agent: in.Agent, Model: in.Model, Policy: in.Policy, OnDisconnect: in.OnDisconnect,
		Parent: in.Parent, ResumedFrom: in.ResumedFrom, Timeout: timeout, Blocks: blocks(in.Blocks),
	}
	for _, at := range in.Attachments {
		req.Blocks = append(req.Blocks, thread.Attachment(at.Name, at.Type, at.URL))
	}
	extra := forAgent{ChatHistory: in.ChatHistory, FileStructure: asText(in.FileStructure)}
	if extra.ChatHistory != nil || extra.FileStructure != "" {
		req.Options, err = marshal(extra)
		req.Options = bytes.TrimSpace(req.Options)
	}
	return req, err
}

// asText returns the text of a JSON string, and any other JSON unchanged.
func asText(data json.RawMessage) string {
	var s string
	if data == nil || json.Unmarshal(data, &s) == nil {
		return s
	}
	return string(data)
}

func (c *call) runs() *run.Runs { return run.In(c.space, nil) }

type startRunIn struct {
	ofThread
	Body NewRun
}

// start creates the run that the request asks for.
func (in *startRunIn) start(c *call) (*run.Run, error) {
	req, err := in.Body.request()
	if err != nil {
		return nil, err
	}
	if req.Parent == "" && c.private().isHidden(in.Thread) {
		return nil, fmt.Errorf("%w: the worker of a run starts runs below it only; name it as parent", problem.ErrForbidden)
	}
	if req.Parent != "" {
		if err := c.mayName("run", req.Parent); err != nil {
			return nil, err
		}
	}
	if req.ResumedFrom != "" {
		if _, err := c.runs().Of(c.ctx, in.Thread, req.ResumedFrom); err != nil {
			return nil, err
		}
	}
	r, err := c.runs().Start(c.ctx, in.Thread, req)
	if err != nil {
		return nil, err
	}
	if c.api.opts.Runner != nil && !r.Ended() {
		c.api.opts.Runner.Queued(c.space.Name(), r.Agent)
	}
	return r, nil
}

func startRun(c *call, in startRunIn) (*run.Run, error) { return in.start(c) }

type streamRunIn struct {
	startRunIn
	LastEventID journal.Position `header:"Last-Event-ID" doc:"for a repeat: the id of the last event received"`
}

// streamRun starts a run and answers with the events of its thread until the run has
// ended. With on_disconnect cancel the run is cancelled when the last connection that
// started it closes before that: this one or a repeat of it on this server. Other
// watchers do not count.
func streamRun(c *call, in streamRunIn) error {
	streams, err := c.visible([]string{threadStream(in.Thread)})
	if err != nil {
		return err
	}
	after, err := in.beforeRun(c)
	if err != nil {
		return err
	}
	w, err := c.attachTo(c.space, &thole.WatchOptions{Streams: streams, After: after}) // before the start, so that no event is missed
	if err != nil {
		return err
	}
	r, err := in.start(c)
	var heard bool
	if err == nil {
		c.api.starters.enter(r.ID)
		defer c.disconnected(r)
		r, err = c.runs().Get(c.ctx, r.ID) // the current state: the request may be a repeat
	}
	if err == nil && r.Ended() {
		heard, err = c.endedBefore(r, w.Position())
	}
	if err != nil {
		w.Close()
		return err
	}
	s := &stream{c: c, feed: single{w}, privacy: []*privacy{c.private().hearing(streams)}, last: completes(r.ID)}
	if heard {
		s.first = eventFrame("complete", run.FinishedData{Run: r.ID, Status: r.Status, Error: c.private().mask(r.Error)})
	}
	return s.run()
}

// beforeRun returns the position after which the stream of the started run begins: the
// client's cursor; without one, for a repeat, the position before the run's first
// event, since the client may have lost the first answer; else the journal's end.
func (in *streamRunIn) beforeRun(c *call) (thole.Position, error) {
	if !in.LastEventID.IsZero() || !c.keyed() {
		return in.LastEventID, nil
	}
	head, err := c.space.Head(c.ctx) // before Earlier: the first request may be committing now
	if err != nil {
		return thole.Position{}, err
	}
	first, repeated, err := c.space.Earlier(c.ctx)
	if !repeated || first.First.IsZero() {
		return head.Last, err
	}
	at := first.First
	at.Seq--
	return at, nil
}

// endedBefore reports whether a watch from after will not deliver the run's end: its
// event came before, or was redacted.
func (c *call) endedBefore(r *run.Run, after thole.Position) (bool, error) {
	q := thole.ReadQuery{Stream: threadStream(r.Thread), Types: []string{"run.finished"}, After: after}
	for e, err := range c.space.Events(c.ctx, q) {
		if err != nil {
			return false, err
		}
		if isEnd(&e, r.ID) != nil {
			return false, nil
		}
	}
	return true, nil
}

// isEnd returns the data of the event that ends the run; nil if the event is another.
func isEnd(e *thole.Event, id string) *run.FinishedData {
	var end run.FinishedData
	if e.Type != "run.finished" || e.As(&end) != nil || end.Run != id {
		return nil
	}
	return &end
}

// completes returns a function that makes the stream's final frame from the event that
// ends the run, and returns nil for others.
func completes(id string) func(*thole.Event) []byte {
	return func(e *thole.Event) []byte {
		if end := isEnd(e, id); end != nil {
			return eventFrame("complete", end)
		}
		return nil
	}
}

// disconnected is called when a connection that started the run closes. If it was the
// last one and the run has on_disconnect cancel, it cancels the run.
func (c *call) disconnected(r *run.Run) {
	if last := c.api.starters.leave(r.ID); !last || r.OnDisconnect != "cancel" || c.r.Context().Err() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(thole.WithoutIdempotencyKey(context.WithoutCancel(c.ctx)), 10*time.Second)
	defer cancel()
	_, err := c.runs().Cancel(ctx, r.ID, run.ByDisconnect)
	if code := problem.Code(err); err != nil && code != "conflict" && code != "not_found" { // those mean that it has ended
		c.api.log.Error("could not cancel a run whose client went away", "run", r.ID, "error", err)
	}
}

type listRunsIn struct {
	ofThread
	paging
}

func listRuns(c *call, in listRunsIn) (page[*run.Run], error) {
	if err := c.everWas(in.Thread); err != nil {
		return page[*run.Run]{}, err
	}
	return pageOf(c.runs().List(c.ctx, in.Thread, &run.ListOptions{Limit: in.Limit, Cursor: in.Cursor}))
}

func getRun(c *call, in ofRun) (*run.Run, error) { return in.find(c) }

// NewCancel says why a run is cancelled.
type NewCancel struct {
	Cause string `json:"cause,omitempty" default:"user" enum:"user|disconnect|credits|timeout|superseded|shutdown"`
}

type cancelRunIn struct {
	ofRun
	Body NewCancel `body:"optional"`
}

func cancelRun(c *call, in cancelRunIn) (*run.Run, error) {
	r, err := in.find(c)
	if err != nil {
		return nil, err
	}
	return c.runs().Cancel(c.ctx, r.ID, in.Body.Cause)
}

// NewSignal is an approval, an answer, or anything else that a run waits for.
type NewSignal struct {
	Name string          `json:"name" doc:"the name for which the run waits, or will wait" example:"approval"`
	Data json.RawMessage `json:"data,omitempty" doc:"any JSON; only the run gets it" example:"{\"approved\":true}"`
}

type signalRunIn struct {
	ofRun
	Body NewSignal
}

func signalRun(c *call, in signalRunIn) (none, error) {
	r, err := in.find(c)
	if err != nil {
		return none{}, err
	}
	return none{}, c.runs().Signal(c.ctx, r.ID, in.Body.Name, in.Body.Data)
}

type listQueueIn struct {
	ofThread
	parts
}

func listQueue(c *call, in listQueueIn) (page[*run.Run], error) {
	queue, err := c.runs().Queue(c.ctx, in.Thread)
	if err != nil {
		return page[*run.Run]{}, err
	}
	var items []*run.Run
	for _, r := range queue {
		if !c.private().hidesThread(r.Thread) { // the queue of an owner has runs of several threads
			items = append(items, r)
		}
	}
	items, next, err := part(in.parts, items, func(r *run.Run) string { return r.ID })
	return pageOf(thole.PageOf[*run.Run]{Items: items, Next: next}, err)
}

// QueueEdit is a change of a queued run.
type QueueEdit struct {
	Prompt *string    `json:"prompt,omitempty" doc:"with blocks: in front of them; without: in place of the text that the message begins with, and its other blocks, such as attachments, stay" example:"Add two tests"`
	Blocks []NewBlock `json:"blocks,omitempty" doc:"all of the user's new message, after the prompt if that is given too"`
	Model  *string    `json:"model,omitempty"`
}

type updateQueuedIn struct {
	ofRun
	ifMatch
	Body QueueEdit
}

func updateQueued(c *call, in updateQueuedIn) (*run.Run, error) {
	r, err := in.find(c)
	if err != nil {
		return nil, err
	}
	edit := run.Edit{Prompt: in.Body.Prompt, Blocks: blocks(in.Body.Blocks), Model: in.Body.Model}
	return c.runs().EditQueued(c.ctx, r.ID, edit, in.IfMatch.at)
}

func deleteQueued(c *call, in ofRun) (none, error) {
	r, err := in.find(c)
	if err == nil {
		_, err = c.runs().Dequeue(c.ctx, r.ID)
	}
	return none{}, err
}

// runOf returns the id of the run that a fence belongs to.
func runOf(f thole.Fence) (string, error) {
	id, ok := strings.CutPrefix(strings.TrimSuffix(f.Key, "/owner"), "run/")
	if !ok || thole.CheckID("run", id) != nil {
		return "", invalid("Thole-Fence", "holds no run's token")
	}
	return id, nil
}
