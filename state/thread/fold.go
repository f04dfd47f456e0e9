package thread

import (
	"slices"

	"github.com/thole-dev/thole"
)

// folded are the types of events that turns are made of.
var folded = []string{"message.*", "tool.*", "thread.rewound", "thread.compacted"}

// fold builds turns from events in journal order. All events of a turn lie
// between the one that opens it and the one that opens the next.
type fold struct {
	turns []*Turn
	turn  *Turn // the last one
}

func (f *fold) apply(e thole.Event) error {
	if e.Data == nil || string(e.Data) == "null" {
		return nil // redacted
	}
	switch e.Type {
	case "message.added":
		var a Added
		if err := e.As(&a); err != nil {
			return err
		}
		f.added(e, &a)
	case "message.updated":
		var u Updated
		if err := e.As(&u); err != nil {
			return err
		}
		if f.is(u.Turn) {
			*f.block(e, u.Block.ID) = u.Block
		}
	case "message.delta":
		var d Delta
		if err := e.As(&d); err != nil {
			return err
		}
		f.delta(e, &d)
	case "tool.started", "tool.completed", "tool.failed":
		return f.tool(e)
	case "message.completed":
		var c Completed
		if err := e.As(&c); err != nil {
			return err
		}
		if f.is(c.Turn) {
			f.turn.Status, f.turn.Usage = c.Status, c.Usage
		}
	case "thread.rewound":
		var r Rewound
		if err := e.As(&r); err != nil {
			return err
		}
		f.turns = slices.DeleteFunc(f.turns, func(t *Turn) bool { return slices.Contains(r.Turns, t.ID) })
		f.turn = nil
	}
	return nil
}

func (f *fold) is(turn string) bool { return f.turn != nil && f.turn.ID == turn }

func (f *fold) added(e thole.Event, a *Added) {
	if a.opens() {
		f.turn = &Turn{ID: a.Turn, Status: Pending, Time: e.Time, Position: e.Position}
		f.turns = append(f.turns, f.turn)
	}
	if !f.is(a.Turn) {
		return // its beginning is not in the window
	}
	if m := a.Message; m != nil {
		m.Turn, m.Time, m.Position, m.Blocks = a.Turn, e.Time, e.Position, numbered(m)
		f.turn.messages = append(f.turn.messages, m)
		if m.Role != User && f.turn.Run == "" {
			f.turn.Status = Done
		}
	}
	if a.Run != "" {
		f.turn.Run, f.turn.Status = a.Run, Streaming
		f.turn.reply = &Message{ID: a.Reply, Turn: a.Turn, Run: a.Run, Role: Assistant, Time: e.Time, Position: e.Position}
	}
}

// block returns the block of the run's message with the given id, new if there
// is none. The message takes its place in the turn with its first block.
func (f *fold) block(e thole.Event, id string) *Block {
	m := f.turn.reply
	if m == nil {
		return new(Block)
	}
	if len(m.Blocks) == 0 {
		m.Time, m.Position = e.Time, e.Position
		f.turn.messages = append(f.turn.messages, m)
	}
	for i := range m.Blocks {
		if m.Blocks[i].ID == id {
			return &m.Blocks[i]
		}
	}
	m.Blocks = append(m.Blocks, Block{ID: id})
	return &m.Blocks[len(m.Blocks)-1]
}

func (f *fold) delta(e thole.Event, d *Delta) {
	if !f.is(d.Turn) {
		return
	}
	b := f.block(e, d.Block)
	if d.Offset != len(b.Content) {
		return // a beginning that was repeated after the block had ended
	}
	if b.Type == "" {
		b.Type, b.Status = Text, Streaming
		if d.Type != "" {
			b.Type = d.Type
		}
	}
	b.Content += d.Text
}

func (f *fold) tool(e thole.Event) error {
	if e.Type == "tool.started" {
		var s ToolStarted
		if err := e.As(&s); err != nil {
			return err
		}
		if f.is(s.Turn) {
			*f.block(e, s.Block) = Block{ID: s.Block, Type: ToolUse, Status: Streaming,
				Tool: &Tool{Name: s.Name, Input: s.Input, OperationID: s.OperationID}}
		}
		return nil
	}
	var end ToolEnded
	if err := e.As(&end); err != nil {
		return err
	}
	if !f.is(end.Turn) {
		return nil
	}
	b := f.block(e, end.Block)
	if b.Tool == nil {
		return nil // its start was redacted
	}
	b.Status = Done
	if e.Type == "tool.failed" {
		b.Status = Error
	}
	b.Tool.Result, b.Tool.DurationMS, b.Meta = end.Result, end.DurationMS, end.Meta
	return nil
}

// end returns the turns. What is unfinished in any but live, the turn that is
// being run now, was interrupted.
func (f *fold) end(live string) []*Turn {
	for _, t := range f.turns {
		if t.Status == Streaming && t.ID != live {
			t.Status = Interrupted
		}
		for i := range t.messages {
			t.messages[i].settle(t)
		}
	}
	return f.turns
}

// settle sets what a message takes from its turn.
func (m *Message) settle(t *Turn) {
	if m.Role != Assistant {
		t.Request = append(t.Request, m.Blocks...)
		return
	}
	m.Status = Done
	if m.Run == t.Run && t.Run != "" {
		m.Status = t.Status
	}
	for i := range m.Blocks {
		b := &m.Blocks[i]
		if b.Status != Streaming || t.Status == Streaming {
			continue
		}
		b.Status = Interrupted
		if t.Status == Done && b.Type != ToolUse {
			b.Status = "" // text ends with its turn
		}
	}
	t.Response = append(t.Response, m.Blocks...)
}
