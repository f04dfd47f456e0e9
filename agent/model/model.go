// Package model talks to chat models with tools, whoever makes them, and plays
// recorded ones where there is no key and no network.
//
// [Open] maps a spec to a model:
//
//	openai:MODEL[@BASEURL]   any endpoint with OpenAI's chat completions
//	anthropic:MODEL          Anthropic's messages
//	script:FILE              recorded turns, see [Script]
package model

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Model generates the next message of a conversation.
type Model interface {
	// Generate sends req and calls yield in order with what the model says,
	// as it says it; nil is allowed. It returns the whole response once it is
	// complete: a tool call is in it only with all of its input.
	//
	// Failures that may pass are tried again as long as nothing was yielded,
	// a bounded number of times. An error comes with the whole blocks so far,
	// without tool calls; [Retryable] tells whether to call again makes sense.
	// Errors: *StatusError, ErrIncomplete, ErrStalled, ErrMalformed, an error
	// of yield as it is, context.Cause(ctx) once ctx ends.
	Generate(ctx context.Context, req Request, yield func(Delta) error) (Response, error)

	// Name returns the spec without address, such as "openai:gpt-5".
	Name() string
}

// Request is what a model is to answer.
type Request struct {
	System    string
	Messages  []Message
	Tools     []Tool
	MaxTokens int // of the answer; zero means the model's own limit, or 8,192 where one must be named
}

// Role is who speaks in a message.
type Role string

// The roles. Results of tools are the user's.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is a turn of a conversation.
type Message struct {
	Role   Role
	Blocks []Block
}

// BlockType is the kind of a block.
type BlockType string

// The kinds of blocks.
const (
	Text       BlockType = "text"        // Text
	Image      BlockType = "image"       // MediaType and Data, or URL
	File       BlockType = "file"        // Name, MediaType and Data; only application/pdf
	ToolCall   BlockType = "tool_call"   // ID, Name, Input; by the assistant
	ToolResult BlockType = "tool_result" // ID and Name of the call, Text, Failed; by the user
	Reasoning  BlockType = "reasoning"   // Text, Signature; by the assistant
)

// Block is a part of a message. Its type says which fields count.
type Block struct {
	Type      BlockType
	Text      string
	MediaType string
	Data      []byte
	URL       string
	ID        string
	Name      string
	Input     json.RawMessage // a JSON object
	Failed    bool
	Signature string // the vendor's proof of its reasoning, to be sent back as it came
}

// Tool is what a model may call.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the input, an object
}

// Delta is a piece of a response; one of its fields is set.
type Delta struct {
	Text      string
	Reasoning string
	ToolCall  *ToolCallDelta
}

// ToolCallDelta is a piece of a tool call that must not be acted on: only the
// Response has it whole.
type ToolCallDelta struct {
	Index    int    // counts the tool calls of the response, from 0
	ID, Name string // in the first piece
	Input    string // the next piece of the JSON
}

// Response is a whole answer.
type Response struct {
	Blocks []Block // in the order in which the model began them
	Stop   StopReason
	Usage  Usage
}

// StopReason is why a model stopped. A vendor's other reasons appear as they are.
type StopReason string

// The usual reasons.
const (
	StopEnd     StopReason = "end"        // it has said all
	StopTools   StopReason = "tool_calls" // it waits for results
	StopLength  StopReason = "max_tokens"
	StopRefusal StopReason = "refusal"
)

// Usage counts tokens. Input includes what was read from and written to a
// cache, output includes reasoning.
type Usage struct {
	InputTokens      int64 `json:"input_tokens" yaml:"input_tokens"`
	OutputTokens     int64 `json:"output_tokens" yaml:"output_tokens"`
	CacheReadTokens  int64 `json:"cache_read_tokens,omitempty" yaml:"cache_read_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty" yaml:"cache_write_tokens"`
	ReasoningTokens  int64 `json:"reasoning_tokens,omitempty" yaml:"reasoning_tokens"`
	TotalTokens      int64 `json:"total_tokens" yaml:"total_tokens"`
}

// Render returns a request as text for people and for the expectations of a
// [Script]: the system prompt, then each block under a line that names it.
//
//	[system]
//	You are …
//	[user]
//	Make it blue
//	[tool_call Read] {"path":"src/Button.tsx"}
//	[tool_result Read]
//	export …
func Render(req Request) string {
	var b strings.Builder
	if req.System != "" {
		fmt.Fprintf(&b, "[system]\n%s\n", req.System)
	}
	for _, m := range req.Messages {
		for _, bl := range m.Blocks {
			switch bl.Type {
			case ToolCall:
				fmt.Fprintf(&b, "[tool_call %s] %s\n", bl.Name, bl.Input)
			case ToolResult:
				failed := ""
				if bl.Failed {
					failed = " failed"
				}
				fmt.Fprintf(&b, "[tool_result %s%s]\n%s\n", bl.Name, failed, bl.Text)
			case Image:
				fmt.Fprintf(&b, "[image %s] %s\n", bl.MediaType, bl.URL)
			case File:
				fmt.Fprintf(&b, "[file %s] %s\n", bl.MediaType, bl.Name)
			case Reasoning: // no part of what was said
			default:
				fmt.Fprintf(&b, "[%s]\n%s\n", m.Role, bl.Text)
			}
		}
	}
	return b.String()
}
