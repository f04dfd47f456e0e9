package rest

import (
	"encoding/json"

	"github.com/thole-dev/thole/state/thread"
)

// RunBlock is a block that a run adds to its turn.
type RunBlock struct {
	ID      string                     `json:"id,omitempty" doc:"default: a new one; not allowed for a block of type tool"`
	Type    string                     `json:"type" enum:"text|image|file|tool|code|reasoning|status|error|summary"`
	Content string                     `json:"content,omitempty" doc:"text; of an image or file its URL or blob" example:"Hello"`
	Meta    map[string]json.RawMessage `json:"meta,omitempty"`
	Tool    *ToolCall                  `json:"tool,omitempty" doc:"for a block of type tool"`
}

// ToolCall is a tool call that begins.
type ToolCall struct {
	Name        string          `json:"name"`
	Input       json.RawMessage `json:"input,omitempty"`
	OperationID string          `json:"operation_id,omitempty" doc:"lets watchers pair start and end"`
}

// BlockID holds the id of a block.
type BlockID struct {
	ID string `json:"id"`
}

type addBlockIn struct {
	ofTurn
	Body RunBlock
}

func addBlock(c *call, body addBlockIn) (BlockID, error) {
	in := body.Body
	h, err := body.attach(c)
	if err != nil {
		return BlockID{}, err
	}
	var id string
	switch {
	case in.Type == thread.ToolUse && in.Tool == nil:
		err = invalid("/tool", "is missing")
	case in.Type == thread.ToolUse && in.ID != "":
		err = invalid("/id", "of a tool's block is the server's to choose")
	case in.Type == thread.ToolUse:
		id, err = h.StartTool(c.ctx, in.Tool.Name, in.Tool.Input, in.Tool.OperationID)
	case in.Tool != nil:
		err = invalid("/tool", "belongs to a block of type tool")
	default:
		id, err = h.Block(c.ctx, thread.Block{ID: in.ID, Type: in.Type, Content: in.Content, Meta: in.Meta})
	}
	return BlockID{ID: id}, err
}

// BlockChange is text to append to a block, or the result of a tool call.
type BlockChange struct {
	Offset *int   `json:"offset,omitempty" min:"0" doc:"where the text begins, in UTF-8 bytes; 0 begins the block"`
	Text   string `json:"text,omitempty"`
	Type   string `json:"type,omitempty" enum:"text|reasoning|code" doc:"for a new block; text if it is left out"`

	Status string                     `json:"status,omitempty" enum:"done|error" doc:"how a tool call ended" example:"done"`
	Result json.RawMessage            `json:"result,omitempty" doc:"of the tool call, any JSON" example:"\"written\""`
	Meta   map[string]json.RawMessage `json:"meta,omitempty"`
}

type updateBlockIn struct {
	ofTurn
	Block string `path:"block" doc:"the id of the block; with offset 0 the caller may make one for a new block: blk_ and 32 hex digits" example:"blk_019f3a5e0c7d7b4e9a51c7e2f0a4b8d6"`
	Body  BlockChange
}

func updateBlock(c *call, body updateBlockIn) (none, error) {
	in, block := body.Body, body.Block
	h, err := body.attach(c)
	if err != nil {
		return none{}, err
	}
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
