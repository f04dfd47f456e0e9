package model

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
)

// anthropicMaxTokens is for requests that name no limit; the service insists.
const anthropicMaxTokens = 8192

// anthropicModel speaks Anthropic's messages.
type anthropicModel struct {
	name   string
	client anthropic.Client
	o      Options
}

func newAnthropic(name string, o Options) *anthropicModel {
	opts := []option.RequestOption{option.WithoutEnvironmentDefaults(), option.WithMaxRetries(0)}
	if o.BaseURL != "" {
		opts = append(opts, option.WithBaseURL(o.BaseURL))
	}
	if o.APIKey == "" {
		o.APIKey = "none"
	}
	return &anthropicModel{name: name, o: o, client: anthropic.NewClient(append(opts, option.WithAPIKey(o.APIKey))...)}
}

func (m *anthropicModel) Name() string { return "anthropic:" + m.name }

func (m *anthropicModel) Generate(ctx context.Context, req Request, yield func(Delta) error) (Response, error) {
	params := m.params(req)
	return generate(ctx, m.Name(), m.o, yield, func(ctx context.Context, a *attempt) error {
		stream := m.client.Messages.NewStreaming(ctx, params, option.WithHTTPClient(a.client()))
		defer stream.Close()
		for stream.Next() {
			e := stream.Current()
			if e.Type == "message_stop" {
				return nil
			}
			if err := addEvent(a, e); err != nil {
				return err
			}
		}
		var refused *anthropic.Error
		switch err := stream.Err(); {
		case errors.As(err, &refused):
			return streamError([]byte(refused.RawJSON()))
		case err != nil:
			return err
		}
		return fmt.Errorf("%w: the stream ended without message_stop", ErrIncomplete)
	})
}

func addEvent(a *attempt, e anthropic.MessageStreamEventUnion) error {
	switch e.Type {
	case "message_start":
		u := e.Message.Usage
		a.count(u.InputTokens, u.OutputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens)
	case "content_block_start":
		switch b := e.ContentBlock; b.Type {
		case "text":
			return a.say(Text, b.Text)
		case "thinking":
			return a.say(Reasoning, b.Thinking)
		case "tool_use":
			return a.call(e.Index, b.ID, b.Name, "")
		}
	case "content_block_delta":
		switch d := e.Delta; d.Type {
		case "text_delta":
			return a.say(Text, d.Text)
		case "thinking_delta":
			return a.say(Reasoning, d.Thinking)
		case "signature_delta":
			a.sign(d.Signature)
		case "input_json_delta":
			return a.call(e.Index, "", "", d.PartialJSON)
		}
	case "message_delta":
		u := e.Usage // counts so far, so the last one holds
		a.count(u.InputTokens, u.OutputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens)
		a.usage.ReasoningTokens = u.OutputTokensDetails.ThinkingTokens
		switch e.Delta.StopReason {
		case "":
		case anthropic.StopReasonEndTurn, anthropic.StopReasonStopSequence:
			a.stop = StopEnd
		case anthropic.StopReasonToolUse:
			a.stop = StopTools
		case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
			a.stop = StopLength
		case anthropic.StopReasonRefusal:
			a.stop = StopRefusal
		default:
			a.stop = StopReason(e.Delta.StopReason)
		}
	}
	return nil
}

// count takes Anthropic's counts, which give cached input apart and are left
// out (zero) where they have not changed.
func (a *attempt) count(input, output, cacheRead, cacheWrite int64) {
	u := &a.usage
	if input+cacheRead+cacheWrite > 0 {
		u.InputTokens, u.CacheReadTokens, u.CacheWriteTokens = input+cacheRead+cacheWrite, cacheRead, cacheWrite
	}
	u.OutputTokens = max(u.OutputTokens, output)
	u.TotalTokens = u.InputTokens + u.OutputTokens
}

func (m *anthropicModel) params(req Request) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{Model: m.name, MaxTokens: int64(req.MaxTokens)}
	if p.MaxTokens <= 0 {
		p.MaxTokens = anthropicMaxTokens
	}
	if req.System != "" {
		// Marks tools and system prompt, which stay the same, for the cache.
		p.System = []anthropic.TextBlockParam{{Text: req.System, CacheControl: anthropic.NewCacheControlEphemeralParam()}}
	}
	for _, msg := range req.Messages {
		if blocks := anthropicBlocks(msg.Blocks); len(blocks) > 0 {
			p.Messages = append(p.Messages, anthropic.MessageParam{Role: anthropic.MessageParamRole(msg.Role), Content: blocks})
		}
	}
	for _, t := range req.Tools {
		tool := anthropic.ToolParam{Name: t.Name, Description: anthropic.String(t.Description)}
		if len(t.Schema) > 0 {
			tool.InputSchema = param.Override[anthropic.ToolInputSchemaParam](t.Schema)
		}
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: &tool})
	}
	return p
}

func anthropicBlocks(blocks []Block) (out []anthropic.ContentBlockParamUnion) {
	for _, b := range blocks {
		switch {
		case b.Type == Text && b.Text != "": // an empty one is refused
			out = append(out, anthropic.NewTextBlock(b.Text))
		case b.Type == Image && b.URL != "":
			out = append(out, anthropic.NewImageBlock(anthropic.URLImageSourceParam{URL: b.URL}))
		case b.Type == Image:
			out = append(out, anthropic.NewImageBlockBase64(b.MediaType, base64.StdEncoding.EncodeToString(b.Data)))
		case b.Type == File:
			out = append(out, anthropic.NewDocumentBlock(anthropic.Base64PDFSourceParam{Data: base64.StdEncoding.EncodeToString(b.Data)}))
		case b.Type == ToolCall:
			out = append(out, anthropic.NewToolUseBlock(b.ID, json.RawMessage(b.Input), b.Name))
		case b.Type == ToolResult:
			out = append(out, anthropic.NewToolResultBlock(b.ID, b.Text, b.Failed))
		case b.Type == Reasoning && b.Signature != "":
			out = append(out, anthropic.NewThinkingBlock(b.Signature, b.Text))
		}
	}
	return out
}
