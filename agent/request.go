package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// Request is what a user asks of the agent.
type Request struct {
	Prompt      string       `json:"prompt"`
	Attachments []Attachment `json:"attachments,omitempty"`
	Model       string       `json:"model,omitempty"`         // a key of Options.Models; empty: routing chooses
	Policy      string       `json:"policy,omitempty"`        // see package run; default enqueue
	Disconnect  string       `json:"on_disconnect,omitempty"` // continue (default) or cancel
	RunOptions
}

// RunOptions are the part of a request that is no part of the conversation. They
// are stored with the run, as its Options; whoever makes a run for the agent to
// claim stores them likewise.
type RunOptions struct {
	// ChatHistory, if not nil, is the history that the model is told, instead
	// of the thread's.
	ChatHistory   []Message `json:"chat_history,omitempty"`
	FileStructure string    `json:"file_structure,omitempty"` // told to the model as it is; empty: the sandbox is listed
	UserID        string    `json:"user_id,omitempty"`        // default: the thread's owner
	UserEmail     string    `json:"user_email,omitempty"`
	DesktopClient string    `json:"desktop_client,omitempty"`
	// Task is the decision of the tool call that started this run as a
	// sub-agent's. The agent sets it.
	Task string `json:"task,omitempty"`
}

// optionsOf returns the options stored with a run; options that are not the
// agent's count as none.
func optionsOf(r *run.Run) RunOptions {
	var o RunOptions
	_ = json.Unmarshal(r.Options, &o)
	return o
}

// run returns the request as package run takes it.
func (r *Request) run(agent string) (run.Request, error) {
	if r.Prompt == "" && len(r.Attachments) == 0 {
		return run.Request{}, fmt.Errorf("%w: the prompt is empty", thole.ErrInvalid)
	}
	if err := r.RunOptions.check(); err != nil {
		return run.Request{}, err
	}
	out := run.Request{Prompt: r.Prompt, Agent: agent, Model: r.Model, Policy: r.Policy, OnDisconnect: r.Disconnect}
	for _, at := range r.Attachments {
		out.Blocks = append(out.Blocks, thread.Attachment(at.Name, at.Type, at.URL))
	}
	var err error
	out.Options, err = json.Marshal(r.RunOptions)
	return out, err
}

func (o *RunOptions) check() error {
	for _, m := range o.ChatHistory {
		if m.Role != roleUser && m.Role != roleAssistant {
			return fmt.Errorf("%w: chat_history: role %.20q is not user or assistant", thole.ErrInvalid, m.Role)
		}
	}
	return nil
}

// asked reads the request back from the blocks of a user's message.
func asked(blocks []thread.Block) Request {
	var r Request
	var text []string
	for i := range blocks {
		b := &blocks[i]
		switch b.Type {
		case thread.Image, thread.File:
			at := Attachment{URL: b.Content}
			for k, v := range map[string]*string{"name": &at.Name, "type": &at.Type} {
				_ = json.Unmarshal(b.Meta[k], v) // what is no string counts as not given
			}
			if b.Type == thread.Image && at.Type == "" && !at.image() {
				at.Type = "image/*"
			}
			r.Attachments = append(r.Attachments, at)
		default:
			text = append(text, b.Content)
		}
	}
	r.Prompt = strings.Join(text, "\n\n")
	return r
}
