package agent

import (
	"context"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/edit"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

// Context is what a tool, a hook and a sub-agent know of the request they work
// for. There are no globals: all of it comes from here. The exported fields are
// set before the run begins and must not be changed after; the methods are safe
// for concurrent use.
//
// Cancellation is not in it but in the ctx that goes with it everywhere:
// context.Cause(ctx) says who ended the work and why.
type Context struct {
	Store *thole.Store
	// Space is the project's: what is committed through it names the agent as
	// its actor and the run as its cause, and fails with ErrFenced once the run
	// has another worker. Watch it for events; broadcast on it what need not last.
	Space  *thole.Space
	Thread string // the conversation, thrd_…
	Run    string // run_…
	Turn   string // turn_…
	Depth  int    // 0 in the run that the user asked for, 1 in its sub-agents, …

	UserID, UserEmail string
	DesktopClient     string // name of the user's desktop program among the watchers
	GitRepo           string
	Template          string // what the project was made from
	Attachments       []Attachment

	Sandbox    *sandbox.Sandbox
	Threads    *thread.Threads
	Runs       *run.Runs
	Todos      *todo.Todos
	TodoThread string // whose list the run and its sub-agents share
	Locks      *lock.Locks
	Decisions  *decision.Decisions
	Files      *file.Files

	agent  *Agent
	handle *run.Handle
	model  string // the chosen one
	edits  *edit.Editor
}

// FilesTouched returns the files that the run and its sub-agents read or
// changed, in the order of their first touch.
func (c *Context) FilesTouched() []string { return c.edits.Touched.Files() }

// FilesDone is the data of the event file.done.
type FilesDone = file.Done

// MarkFileOperationsDone emits file.done in the thread's stream: the files are
// complete, so that a program that watches can build or show them. If no file was
// changed since the last call, it does nothing. The agent calls it at the end of a run.
func (c *Context) MarkFileOperationsDone(ctx context.Context) error {
	if !c.edits.Touched.Done() {
		return nil
	}
	_, err := c.Space.Update(ctx, func(tx *thole.Tx) error {
		tx.Emit(thread.Key(c.Thread), "file.done", FilesDone{Run: c.Run, Files: c.FilesTouched()})
		return nil
	})
	return err
}

// Cancel ends the run and its sub-agents, for one of the causes of package run,
// such as credits. It returns before they have ended: ctx tells.
func (c *Context) Cancel(ctx context.Context, cause string) error {
	_, err := c.Runs.Cancel(ctx, c.Run, cause)
	return err
}

// Todo returns the task list that the run and its sub-agents share.
func (c *Context) Todo(ctx context.Context) ([]todo.Todo, error) {
	list, err := c.Todos.List(ctx, c.TodoThread)
	return list.Todos, err
}

// Sub derives the context of a sub-agent, whose run h holds: a thread and a view
// of the files of its own; user, project, task list and touched files are
// shared. What is done through it is done by the sub-agent's run.
func (c *Context) Sub(h *run.Handle) *Context {
	sub := *c
	sub.Depth++
	sub.bind(h, c.edits.Touched)
	return &sub
}

// bind makes c act as the run that h holds, which has seen no file yet.
func (c *Context) bind(h *run.Handle, touched *edit.Touched) {
	sp := h.Space()
	c.handle, c.Space = h, sp
	c.Run, c.Thread, c.Turn = h.ID(), h.Thread(), h.Turn()
	c.Threads, c.Todos, c.Runs = thread.In(sp), todo.In(sp), run.In(sp, c.agent.opts.Runs)
	c.Locks, c.Decisions, c.Files = lock.In(sp), decision.In(sp), file.In(sp)
	c.edits = edit.New(c.Sandbox, sp, edit.Options{Dead: c.hasEnded, Confirm: c.confirm}, touched)
}
