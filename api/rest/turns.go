package rest

import (
	"encoding/json"
	"slices"

	"github.com/invopop/jsonschema"

	"github.com/thole-dev/thole/state/thread"
)

// RunBlock is a block that a run adds to its turn.
type RunBlock struct {
	ID string `json:"id,omitempty" jsonschema:"description=default: a new one; not of a block of type tool"`
	NewBlock
	Tool *ToolCall `json:"tool,omitempty" jsonschema:"description=of a block of type tool"`
}

// JSONSchemaExtend adds the type of block that only a run makes.
func (RunBlock) JSONSchemaExtend(s *jsonschema.Schema) {
	if typ, ok := s.Properties.Get("type"); ok {
		typ.Enum = append(slices.Clone(typ.Enum), thread.ToolUse)
	}
}

// ToolCall is the beginning of a tool's call.
type ToolCall struct {
	Name        string          `json:"name"`
	Input       json.RawMessage `json:"input,omitempty"`
	OperationID string          `json:"operation_id,omitempty" jsonschema:"description=pairs start and end for whoever watches"`
}

// BlockID names a block.
type BlockID struct {
	ID string `json:"id"`
}

func addBlock(c *call, in RunBlock) (BlockID, error) {
	h, err := c.attach()
	if err != nil {
		return BlockID{}, err
	}
	var id string
	switch {
	case in.Type == thread.ToolUse && in.Tool == nil:
		err = invalid("tool", "is missing")
	case in.Type == thread.ToolUse && in.ID != "":
		err = invalid("id", "of a tool's block is the server's to choose")
	case in.Type == thread.ToolUse:
		id, err = h.StartTool(c.ctx, in.Tool.Name, in.Tool.Input, in.Tool.OperationID)
	case in.Tool != nil:
		err = invalid("tool", "belongs to a block of type tool")
	default:
		b := in.block()
		b.ID = in.ID
		id, err = h.Block(c.ctx, b)
	}
	return BlockID{ID: id}, err
}

// BlockChange is text that goes on a block, or the end of a tool's call.
type BlockChange struct {
	Offset *int   `json:"offset,omitempty" jsonschema:"description=where the text begins, in UTF-8 bytes; 0 begins the block"`
	Text   string `json:"text,omitempty"`
	Type   string `json:"type,omitempty" jsonschema:"description=of a block that begins: text (default) reasoning or code"`

	Status string                     `json:"status,omitempty" jsonschema:"enum=done,enum=error,description=how a tool's call ended"`
	Result json.RawMessage            `json:"result,omitempty"`
	Meta   map[string]json.RawMessage `json:"meta,omitempty"`
}

func changeBlock(c *call, in BlockChange) (none, error) {
	h, err := c.attach()
	if err != nil {
		return none{}, err
	}
	block := c.r.PathValue("block")
	switch {
	case in.Offset != nil && in.Status == "" && in.Result == nil:
		err = h.Append(c.ctx, thread.Delta{Turn: h.Turn(), Block: block, Type: in.Type, Offset: *in.Offset, Text: in.Text})
	case in.Offset == nil && (in.Status == thread.Done || in.Status == thread.Error):
		err = h.FinishTool(c.ctx, block, thread.ToolResult{Result: in.Result, Meta: in.Meta, Failed: in.Status == thread.Error})
	default:
		err = invalid("body", "holds either offset and text, or status done or error with a result")
	}
	return none{}, err
}
