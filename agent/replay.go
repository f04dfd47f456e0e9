package agent

import (
	"encoding/json"

	"github.com/thole-dev/thole/agent/history"
	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/state/thread"
)

// replay returns what an interrupted turn came to as the messages that it
// consisted of, for a model to go on from. A call that is known not to have
// begun is left out, so that the model makes it again; one that ran, or may
// have, has a result that says so. Text that no call followed was never finished,
// and is left out too.
func replay(blocks []thread.Block, fates map[string]fate) []model.Message {
	var out []model.Message
	var said, results []model.Block
	flush := func() {
		if len(results) > 0 {
			out = append(out, model.Message{Role: model.Assistant, Blocks: said}, model.Message{Role: model.User, Blocks: results})
			said, results = nil, nil
		}
	}
	for i := range blocks {
		switch b := &blocks[i]; b.Type {
		case thread.Text:
			flush()
			said = append(said, model.Block{Type: model.Text, Text: b.Content})
		case thread.ToolUse:
			f, decided := fates[b.ID]
			if !decided && b.Tool.Name == taskTool {
				f = fates[taskTool]
			}
			result := model.Block{Type: model.ToolResult, ID: b.ID, Name: b.Tool.Name}
			switch ended := b.Status == thread.Done || b.Status == thread.Error; {
			case ended:
				result.Text, result.Failed = history.Text(b.Tool.Result), b.Status == thread.Error
			case f.known == notBegun:
				continue
			case f.known == unknown:
				result.Text, result.Failed = "[interrupted by a crash; "+f.known.String()+"]", true
			default:
				result.Text, result.Failed = join("[interrupted by a crash; verified: "+f.known.String()+"]", f.says), f.known == failed
			}
			said = append(said, model.Block{Type: model.ToolCall, ID: b.ID, Name: b.Tool.Name, Input: object(b.Tool.Input)})
			results = append(results, result)
		}
	}
	flush()
	return out
}

// object is an input as models must have it.
func object(input json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(input, &m) != nil {
		return json.RawMessage("{}")
	}
	return input
}

// meta is a member of a block's meta; "" if it is no string.
func meta(b *thread.Block, name string) (text string) {
	_ = json.Unmarshal(b.Meta[name], &text)
	return text
}

// join puts more on a line of its own.
func join(text, more string) string {
	if text == "" || more == "" {
		return text + more
	}
	return text + "\n" + more
}
