// Package agent is the reference coding agent: the request flow of a chat with
// tools, on top of the state packages. It is small, to prove them and to be
// copied from.
//
//	request ─ thread ─ history ─ route ─ model ⇄ tools ─ thread
//	                                      │        └ lock, decision, effect, outcome, file.changed
//	                                      └ text, in chunks with offsets
//
// All of it happens in a run (package state/run): one worker at a time, fenced,
// cancellable, found crashed and resumed. Every effect on the world has a
// decision before and an outcome after it.
package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/history"
	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/state/run"
)

// DefaultName is the name of an agent that is given none.
const DefaultName = "coder"

// Options describe an agent. Sandbox and Models are required; for all else the
// zero value is the default.
type Options struct {
	Name    string           // acts as agent:<name>; default DefaultName
	Sandbox *sandbox.Sandbox // the project; the caller closes it
	Models  map[string]model.Model
	Model   string // the key in Models of the default; "" if there is only one
	Routes  []Rule // in order; the first that a request meets chooses the model

	System      string         // system prompt; default DefaultSystem. Context is added to it
	Tools       []Tool         // default DefaultTools()
	ToolHistory history.Filter // what models are shown of past tool calls; default history.CutResults
	History     int            // how many past turns models are shown; default 10
	Hooks       Hooks

	MaxSteps int // messages of the model per run; default 100
	MaxDepth int // levels of sub-agents; default 2, negative: none
	Retries  int // of an answer that broke off; default 3, negative: none

	Runs *run.Options // of the runs that the agent works on: lease, group, …

	GitRepo  string // told to tools and to the model
	Template string // what the project was made from; likewise
}

// Agent answers requests. It has no state of its own: one Agent may serve any
// number of threads at once.
type Agent struct {
	opts  Options
	tools map[string]*Tool
}

// DefaultTools returns Read, Write, Edit, Bash, Todo and Task.
func DefaultTools() []Tool {
	return []Tool{
		NewTool("Read", "Reads a file of the project as it is, or lists a directory. Long files come in parts: use offset and limit.", read, &ToolOptions{ReadOnly: true}),
		NewTool("Write", "Writes a whole file. One that exists must have been read before; to change a part of it, use Edit.", write, nil),
		NewTool("Edit", "Replaces text in a file. What others changed in it since you read it is kept, or you are told of the conflict.", editFile, nil),
		NewTool("Bash", "Runs a shell command in the project's directory and returns its output. Processes that it leaves behind are ended with it.", bash, nil),
		NewTool("Todo", "Shows or changes the task list. It is also appended to the result of every tool.", changeTodos, nil),
		NewTool(taskTool, "Gives a piece of work to a sub-agent with the same tools and task list, and returns its answer.", task, nil),
	}
}

// New returns an agent. ErrInvalid: the options make no sense.
func New(o Options) (*Agent, error) {
	o.setDefaults()
	a := &Agent{opts: o, tools: make(map[string]*Tool, len(o.Tools))}
	switch {
	case o.Sandbox == nil:
		return nil, fmt.Errorf("%w: an agent needs a sandbox", thole.ErrInvalid)
	case len(o.Models) == 0:
		return nil, fmt.Errorf("%w: an agent needs a model", thole.ErrInvalid)
	}
	for _, r := range append([]Rule{{Name: "default", Model: o.Model}}, o.Routes...) {
		if _, ok := o.Models[r.Model]; !ok {
			return nil, fmt.Errorf("%w: rule %q routes to the model %q, which is not one of %s", thole.ErrInvalid, r.Name, r.Model, names(o.Models))
		}
	}
	for i := range o.Tools {
		t := &o.Tools[i]
		if t.Name == "" || t.run == nil || a.tools[t.Name] != nil {
			return nil, fmt.Errorf("%w: tool %q is there twice or not made by NewTool", thole.ErrInvalid, t.Name)
		}
		a.tools[t.Name] = t
	}
	return a, nil
}

func (o *Options) setDefaults() {
	if o.Model == "" && len(o.Models) == 1 {
		o.Model = names(o.Models)
	}
	if o.Tools == nil {
		o.Tools = DefaultTools()
	}
	if o.ToolHistory == nil {
		o.ToolHistory = history.CutResults
	}
	o.Hooks.setDefaults()
	o.Name, o.System = cmp.Or(o.Name, DefaultName), cmp.Or(o.System, DefaultSystem)
	o.History, o.MaxSteps = cmp.Or(o.History, 10), cmp.Or(o.MaxSteps, 100)
	o.MaxDepth, o.Retries = cmp.Or(o.MaxDepth, 2), cmp.Or(o.Retries, 3)
}

// names lists the keys of what is known, for messages.
func names[V any](known map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

// offered is what the model may call in c: no sub-agents below the deepest.
func (a *Agent) offered(c *Context) []model.Tool {
	var list []model.Tool
	for _, t := range a.opts.Tools {
		if t.Name != taskTool || c.Depth < a.opts.MaxDepth {
			list = append(list, t.Tool)
		}
	}
	return list
}
