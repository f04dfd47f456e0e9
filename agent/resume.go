package agent

import (
	"encoding/json"

	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/thread"
)

// fate is what is known, after a crash, of what a tool call did.
type fate struct {
	known knowledge
	says  string // its error or its output
}

type knowledge int

// The larger counts when a call made several decisions.
const (
	never    knowledge = iota // it never began, or may be done again without harm
	failed                    // it ran, and failed
	happened                  // it had its effect
	unknown
)

func fateOf(d *decision.Decision) fate {
	var r outcome
	_ = json.Unmarshal(d.Result, &r) // what says nothing says nothing
	switch {
	case d.Status == decision.Done:
		return fate{happened, r.Output}
	case d.Status == decision.Failed && r.Again:
		return fate{known: never}
	case d.Status == decision.Failed:
		return fate{failed, join(r.Error, r.Output)}
	}
	return fate{known: unknown}
}

// replay returns what an interrupted turn came to as the messages that it
// consisted of, for a model to go on from. A call that is known not to have
// begun is left out, so that the model makes it again; one that ran, or may
// have, has a result that says so. Text that no call followed
// was never finished, and is left out too.
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
		b := &blocks[i]
		switch b.Type {
		case thread.Text:
			flush()
			said = append(said, model.Block{Type: model.Text, Text: b.Content})
		case thread.ToolUse:
			f, decided := fates[b.ID]
			if !decided && b.Tool.Name == taskTool {
				f = fates[taskTool]
			}
			result, ok := replayResult(b, f)
			if !ok {
				continue
			}
			said = append(said, model.Block{Type: model.ToolCall, ID: b.ID, Name: b.Tool.Name, Input: object(b.Tool.Input)})
			results = append(results, result)
		}
	}
	flush()
	return out
}

func replayResult(b *thread.Block, f fate) (model.Block, bool) {
	r := model.Block{Type: model.ToolResult, ID: b.ID, Name: b.Tool.Name, Text: resultText(b.Tool.Result), Failed: b.Status == thread.Error}
	if b.Status == thread.Done || b.Status == thread.Error {
		return r, true
	}
	switch f.known {
	case happened:
		r.Text = join("[interrupted by a crash; verified: it had its effect]", f.says)
	case failed:
		r.Text, r.Failed = join("[interrupted by a crash; verified: it ran, and failed]", f.says), true
	case unknown:
		r.Text, r.Failed = "[interrupted by a crash; whether it had its effect is unknown: find out before you repeat it]", true
	default:
		return r, false
	}
	return r, true
}

// object is an input as models must have it.
func object(input json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(input, &m) != nil {
		return json.RawMessage("{}")
	}
	return input
}
