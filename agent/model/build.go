package model

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
)

// build puts the pieces of a response together.
type build struct {
	yield    func(Delta) error
	yielded  bool
	yieldErr error
	parts    []*part
	calls    int
	stop     StopReason
	usage    Usage
}

// part is a block on its way. key tells which one a piece belongs to.
type part struct {
	Block
	key   int64
	index int // of a tool call
	input bytes.Buffer
}

func (b *build) emit(d Delta) error {
	if b.yield == nil {
		return nil
	}
	b.yielded = true
	b.yieldErr = b.yield(d)
	return b.yieldErr
}

// say adds to the text or the reasoning that is being said.
func (b *build) say(t BlockType, text string) error {
	if text == "" {
		return nil
	}
	if len(b.parts) == 0 || b.parts[len(b.parts)-1].Type != t {
		b.parts = append(b.parts, &part{Block: Block{Type: t}, key: -1})
	}
	b.parts[len(b.parts)-1].input.WriteString(text)
	if t == Reasoning {
		return b.emit(Delta{Reasoning: text})
	}
	return b.emit(Delta{Text: text})
}

// sign adds the proof of the reasoning that was said last.
func (b *build) sign(signature string) {
	if len(b.parts) > 0 && b.parts[len(b.parts)-1].Type == Reasoning {
		b.parts[len(b.parts)-1].Signature += signature
	}
}

// call begins a tool call or goes on with the last one of the same key. One
// with another id is another call, whatever its key: some servers number all
// their calls 0.
func (b *build) call(key int64, id, name, input string) error {
	var p *part
	for _, q := range b.parts {
		if q.Type == ToolCall && q.key == key {
			p = q
		}
	}
	if p == nil || id != "" && p.ID != "" && id != p.ID {
		p = &part{Block: Block{Type: ToolCall}, key: key, index: b.calls}
		b.calls++
		b.parts = append(b.parts, p)
	}
	if p.ID == "" {
		p.ID = id
	}
	if p.Name == "" {
		p.Name = name
	}
	p.input.WriteString(input)
	return b.emit(Delta{ToolCall: &ToolCallDelta{Index: p.index, ID: id, Name: name, Input: input}})
}

// finish returns the whole response, or what is wrong with it.
func (b *build) finish() (Response, error) {
	resp := b.partial()
	resp.Blocks = nil
	for _, p := range b.parts {
		if p.Type != ToolCall {
			resp.Blocks = append(resp.Blocks, p.said())
			continue
		}
		input := bytes.TrimSpace(p.input.Bytes())
		if len(input) == 0 {
			input = []byte("{}") // a tool without parameters
		}
		switch object := input[0] == '{' && json.Valid(input); {
		case !object && b.stop == StopLength:
			return b.partial(), &lengthError{tool: p.Name}
		case !object:
			return b.partial(), fmt.Errorf("%w: the input of a call of %s is not a JSON object: %.100s", ErrMalformed, p.Name, input)
		case p.Name == "":
			return b.partial(), fmt.Errorf("%w: a tool call without a name", ErrMalformed)
		}
		call := p.Block
		call.Input = bytes.Clone(input)
		if call.ID == "" {
			call.ID = "call_" + rand.Text()
		}
		resp.Blocks = append(resp.Blocks, call)
	}
	if b.calls > 0 && resp.Stop == StopEnd {
		resp.Stop = StopTools // some servers do not tell the two apart
	}
	return resp, nil
}

// partial returns what was said, without tool calls.
func (b *build) partial() Response {
	resp := Response{Stop: b.stop, Usage: b.usage}
	for _, p := range b.parts {
		if p.Type != ToolCall {
			resp.Blocks = append(resp.Blocks, p.said())
		}
	}
	return resp
}

func (p *part) said() Block {
	bl := p.Block
	bl.Text = p.input.String()
	return bl
}
