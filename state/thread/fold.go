package thread

import (
	"slices"
	"strings"
)

// fold builds turns from facts in journal order. All facts of a turn lie between the
// one that opens it and the one that opens the next. Facts are shared, so fold copies
// from them.
type fold struct {
	turns []*Turn
	turn  *Turn           // the last one
	text  strings.Builder // text of the block that grew last, to append without copying it
}

func (f *fold) apply(e fact) {
	switch d := e.data.(type) {
	case *Added:
		f.added(e, d)
	case *Updated:
		f.updated(e, d)
	case *Delta:
		f.delta(e, d)
	case *Completed:
		if f.is(d.Turn) {
			f.turn.Status, f.turn.Usage = d.Status, d.Usage
		}
	case *Rewound:
		f.turns = slices.DeleteFunc(f.turns, func(t *Turn) bool { return slices.Contains(d.Turns, t.ID) })
		f.turn = nil
	}
}

func (f *fold) is(turn string) bool { return f.turn != nil && f.turn.ID == turn }

func (f *fold) added(e fact, a *Added) {
	if a.opens() {
		f.turn = &Turn{ID: a.Turn, Status: Pending, Request: []Block{}, Response: []Block{}, Time: e.time, Position: e.pos}
		f.turns = append(f.turns, f.turn)
	}
	if !f.is(a.Turn) {
		return // the turn began before the window
	}
	if a.Message != nil {
		m := &Message{ID: a.Message.ID, Role: a.Message.Role, Blocks: a.Message.Blocks}
		m.Turn, m.Time, m.Position, m.Blocks = a.Turn, e.time, e.pos, numbered(m)
		f.turn.messages = append(f.turn.messages, m)
		if m.Role != User && f.turn.Run == "" {
			f.turn.Status = Done
		}
	}
	if a.Run != "" {
		f.turn.Run, f.turn.Status, f.turn.begun = a.Run, Streaming, e.pos
		f.turn.reply = &Message{ID: a.Reply, Turn: a.Turn, Run: a.Run, Role: Assistant, Time: e.time, Position: e.pos}
	}
}

// block returns the block of the run's message with the given id, and adds one if there
// is none. The first block adds the message to the turn.
func (f *fold) block(e fact, id string) *Block {
	m := f.turn.reply
	if m == nil {
		return new(Block)
	}
	if len(m.Blocks) == 0 {
		m.Time, m.Position = e.time, e.pos
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

func (f *fold) delta(e fact, d *Delta) {
	if !f.is(d.Turn) {
		return
	}
	b := f.block(e, d.Block)
	if d.Offset != len(b.Content) {
		return // offset 0 again, after the block had ended
	}
	if b.Type == "" {
		b.Type, b.Status = Text, Streaming
		if d.Type != "" {
			b.Type = d.Type
		}
	}
	if f.text.String() != b.Content { // cheap: they mostly share their bytes
		f.text.Reset()
		f.text.WriteString(b.Content)
	}
	f.text.WriteString(d.Text)
	b.Content = f.text.String()
}

func (f *fold) updated(e fact, u *Updated) {
	if !f.is(u.Turn) {
		return
	}
	b, now := f.block(e, u.Block.ID), u.Block.clone()
	if e.typ == "tool.completed" || e.typ == "tool.failed" {
		if b.Tool == nil {
			return // its start was redacted
		}
		now.Tool.Name, now.Tool.Input, now.Tool.OperationID = b.Tool.Name, b.Tool.Input, b.Tool.OperationID
	}
	*b = now
}

// end returns the turns. It marks what is unfinished as interrupted, except in live,
// the turn that a run works on.
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

// settle derives m's status and those of its blocks from the turn's, and adds the blocks
// to the turn's request or response.
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
