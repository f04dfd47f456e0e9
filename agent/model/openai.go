package model

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/shared"
)

// openAI speaks chat completions, which most other servers speak as well.
type openAI struct {
	name   string
	client openai.Client
	o      Options
	vendor bool // at OpenAI itself
}

func newOpenAI(name string, o Options) *openAI {
	m := &openAI{name: name, o: o, vendor: o.BaseURL == ""}
	opts := []option.RequestOption{option.WithMaxRetries(0)}
	if !m.vendor {
		opts = append(opts, option.WithBaseURL(o.BaseURL))
	}
	if o.APIKey == "" {
		o.APIKey = "none" // the SDK insists on one; servers without keys ignore it
	}
	m.client = openai.NewClient(append(opts, option.WithAPIKey(o.APIKey))...)
	return m
}

func (m *openAI) Name() string { return "openai:" + m.name }

func (m *openAI) Generate(ctx context.Context, req Request, yield func(Delta) error) (Response, error) {
	params, err := m.params(req)
	if err != nil {
		return Response{}, fmt.Errorf("%s: %w", m.Name(), err)
	}
	return generate(ctx, m.Name(), m.o, yield, func(ctx context.Context, a *attempt) error {
		stream := m.client.Chat.Completions.NewStreaming(ctx, params, option.WithHTTPClient(a.client()))
		defer stream.Close()
		for stream.Next() {
			if err := addChunk(a, stream.Current()); err != nil {
				return err
			}
		}
		var refused *ssestream.StreamError
		switch err := stream.Err(); {
		case errors.As(err, &refused):
			return streamError(refused.Event.Data)
		case a.stop != "":
			return nil // whole; what was lost after it can only be the usage
		case err != nil:
			return err
		}
		return fmt.Errorf("%w: the stream ended without a finish_reason", ErrIncomplete)
	})
}

func addChunk(a *attempt, c openai.ChatCompletionChunk) error {
	if u := c.Usage; u.TotalTokens > 0 {
		a.usage = Usage{
			InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens, TotalTokens: u.TotalTokens,
			CacheReadTokens: u.PromptTokensDetails.CachedTokens, CacheWriteTokens: u.PromptTokensDetails.CacheWriteTokens,
			ReasoningTokens: u.CompletionTokensDetails.ReasoningTokens,
		}
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // one answer was asked for
		}
		d := choice.Delta
		for _, key := range []string{"reasoning_content", "reasoning"} { // not OpenAI's, but widespread
			var text string
			if f, ok := d.JSON.ExtraFields[key]; ok && json.Unmarshal([]byte(f.Raw()), &text) == nil && text != "" {
				if err := a.say(Reasoning, text); err != nil {
					return err
				}
				break // some send it under both names
			}
		}
		if err := a.say(Text, d.Content+d.Refusal); err != nil {
			return err
		}
		for _, t := range d.ToolCalls {
			if err := a.call(t.Index, t.ID, t.Function.Name, t.Function.Arguments); err != nil {
				return err
			}
		}
		switch choice.FinishReason {
		case "":
		case "stop":
			a.stop = StopEnd
		case "tool_calls", "function_call":
			a.stop = StopTools
		case "length":
			a.stop = StopLength
		case "content_filter":
			a.stop = StopRefusal
		default:
			a.stop = StopReason(choice.FinishReason)
		}
	}
	return nil
}

func (m *openAI) params(req Request) (openai.ChatCompletionNewParams, error) {
	p := openai.ChatCompletionNewParams{
		Model:         m.name,
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	switch {
	case req.MaxTokens > 0 && m.vendor:
		p.MaxCompletionTokens = openai.Int(int64(req.MaxTokens))
	case req.MaxTokens > 0:
		p.MaxTokens = openai.Int(int64(req.MaxTokens)) // the name that all servers know
	}
	if req.System != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(req.System))
	}
	for _, msg := range req.Messages {
		p.Messages = append(p.Messages, openAIMessages(msg)...)
	}
	for _, t := range req.Tools {
		f := shared.FunctionDefinitionParam{Name: t.Name, Description: openai.String(t.Description)}
		if len(t.Schema) > 0 {
			if err := json.Unmarshal(t.Schema, &f.Parameters); err != nil {
				return p, fmt.Errorf("schema of tool %s: %w", t.Name, err)
			}
		}
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(f))
	}
	return p, nil
}

// openAIMessages translates one message; results of tools are messages of
// their own there, and come first.
func openAIMessages(msg Message) (out []openai.ChatCompletionMessageParamUnion) {
	var text []string
	var calls []openai.ChatCompletionMessageToolCallUnionParam
	var parts []openai.ChatCompletionContentPartUnionParam
	parted := false
	for _, b := range msg.Blocks {
		switch b.Type {
		case Text:
			text = append(text, b.Text)
			parts = append(parts, openai.TextContentPart(b.Text))
		case Image:
			parted = true
			parts = append(parts, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: contentURL(b)}))
		case File:
			parted = true
			parts = append(parts, openai.FileContentPart(openai.ChatCompletionContentPartFileFileParam{
				FileData: openai.String(contentURL(b)), Filename: openai.String(cmp.Or(b.Name, "attachment.pdf")),
			}))
		case ToolCall:
			calls = append(calls, openai.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
					ID:       b.ID,
					Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: b.Name, Arguments: string(b.Input)},
				},
			})
		case ToolResult:
			out = append(out, openai.ToolMessage(b.Text, b.ID))
		}
	}
	said := strings.Join(text, "\n")
	switch {
	case msg.Role == Assistant && (said != "" || len(calls) > 0):
		m := openai.ChatCompletionAssistantMessageParam{ToolCalls: calls}
		if said != "" {
			m.Content.OfString = param.NewOpt(said)
		}
		out = append(out, openai.ChatCompletionMessageParamUnion{OfAssistant: &m})
	case msg.Role == User && parted:
		out = append(out, openai.UserMessage(parts))
	case msg.Role == User && said != "":
		out = append(out, openai.UserMessage(said)) // a plain string: some servers take no parts
	}
	return out
}

func contentURL(b Block) string {
	if b.URL != "" {
		return b.URL
	}
	return "data:" + b.MediaType + ";base64," + base64.StdEncoding.EncodeToString(b.Data)
}
