package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/history"
	"github.com/thole-dev/thole/agent/model"
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
// claim stores them likewise. A run with options that are not these fails, and
// its error names the option.
type RunOptions struct {
	// ChatHistory, if not nil, is the history that the model is told, instead
	// of the thread's.
	ChatHistory   []history.Message `json:"chat_history,omitempty"`
	FileStructure string            `json:"file_structure,omitempty"` // told to the model as it is; empty: the sandbox is listed
	UserID        string            `json:"user_id,omitempty"`        // default: the thread's owner
	UserEmail     string            `json:"user_email,omitempty"`
	DesktopClient string            `json:"desktop_client,omitempty"`
	// Task is the decision of the tool call that started this run as a
	// sub-agent's. The agent sets it.
	Task string `json:"task,omitempty"`
}

// optionsOf reads the options stored with a run. Errors: ErrInvalid, naming the
// option that is not known, or is of another type.
func optionsOf(r *run.Run) (o RunOptions, err error) {
	if len(r.Options) > 0 {
		err = jsonv2.Unmarshal(r.Options, &o, jsonv2.RejectUnknownMembers(true))
	}
	var wrong *jsonv2.SemanticError
	switch {
	case errors.As(err, &wrong) && errors.Is(err, jsonv2.ErrUnknownName):
		return o, fmt.Errorf("%w: the run's option %q is not known here", thole.ErrInvalid, wrong.JSONPointer)
	case errors.As(err, &wrong) && wrong.JSONPointer != "":
		return o, fmt.Errorf("%w: the run's option %q is of the wrong type", thole.ErrInvalid, wrong.JSONPointer)
	case err != nil:
		return o, fmt.Errorf("%w: the run's options: %v", thole.ErrInvalid, err)
	}
	return o, o.check()
}

func (o *RunOptions) check() error {
	for _, m := range o.ChatHistory {
		if m.Role != thread.User && m.Role != thread.Assistant {
			return fmt.Errorf("%w: chat_history: role %.20q is not user or assistant", thole.ErrInvalid, m.Role)
		}
	}
	return nil
}

// run returns the request as package run takes it.
func (r *Request) run(agent string) (run.Request, error) {
	if r.empty() {
		return run.Request{}, fmt.Errorf("%w: the prompt is empty", thole.ErrInvalid)
	}
	if err := r.check(); err != nil {
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

func (r *Request) empty() bool { return r.Prompt == "" && len(r.Attachments) == 0 }

// asked reads the request back from the blocks of a user's message.
func asked(blocks []thread.Block) Request {
	var r Request
	var text []string
	for i := range blocks {
		switch b := &blocks[i]; b.Type {
		case thread.Image, thread.File:
			at := Attachment{Name: meta(b, "name"), Type: meta(b, "type"), URL: b.Content}
			if b.Type == thread.Image && at.Type == "" {
				at.Type = anyImage
			}
			r.Attachments = append(r.Attachments, at)
		default:
			text = append(text, b.Content)
		}
	}
	r.Prompt = strings.Join(text, "\n\n")
	return r
}

// Attachment is an image or a file that came with a prompt.
type Attachment struct {
	Name string `json:"name,omitempty"`
	Type string `json:"type,omitempty"` // media type, such as image/png
	URL  string `json:"url,omitempty"`  // a data URL, an http(s) URL, or the SHA-256 of a blob of the space

	data []byte // the content, once it was read; nil if only the URL is known
}

// maxAttached is the size of the largest attachment that a model is given.
const maxAttached = 5 << 20

// anyImage is the type of an image whose own is to be found out.
const anyImage = "image/*"

// read reads the content of a data URL or a blob. An http(s) URL is handed to the
// model's service and never asked from here.
func (at *Attachment) read(ctx context.Context, sp *thole.Space) error {
	var found string
	scheme, _, isURL := strings.Cut(at.URL, ":")
	switch {
	case strings.EqualFold(scheme, "data"):
		var ok bool
		if found, at.data, ok = model.ParseDataURL(at.URL); !ok {
			return fmt.Errorf("attachment %.80q: %w: the data URL is malformed", at.Name, thole.ErrInvalid)
		}
	case !isURL:
		blob, err := sp.OpenBlob(ctx, at.URL)
		if err == nil && blob.Blob().Size > maxAttached {
			err = fmt.Errorf("%w: %d bytes, the limit is %d", thole.ErrTooLarge, blob.Blob().Size, maxAttached)
		}
		if err == nil {
			at.data, err = io.ReadAll(blob)
		}
		if err != nil {
			return fmt.Errorf("attachment %.80q: %w", at.Name, err)
		}
		found = http.DetectContentType(at.data)
	}
	if found != "" && (at.Type == "" || at.Type == anyImage) {
		at.Type = found
	}
	return nil
}
