package thread

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/thole-dev/thole"
)

// The functions in this file change the turn that a run works on. Each works within a
// Tx, so that it commits with the run's own records, under the run's fence.

// openTurn is the record thread/<id>/turn: the state of the turn that a run works on. It
// stays small however long the turn gets.
type openTurn struct {
	ID    string          `json:"id"`
	Run   string          `json:"run"`
	Block string          `json:"block,omitempty"` // the block to which text may be appended
	Bytes int             `json:"bytes,omitempty"` // the length of its text so far
	Tools map[string]call `json:"tools,omitempty"` // block → call without a result
}

type call struct {
	Name        string `json:"name,omitempty"`
	OperationID string `json:"operation_id,omitempty"`
	Started     int64  `json:"started"` // Unix microseconds
}

func turnKey(id string) string { return Key(id) + "/turn" }

// OffsetError reports a chunk of text that does not begin where the block's text ends.
// It unwraps to ErrConflict.
type OffsetError struct {
	Block  string
	Offset int // where the chunk begins
	Have   int // how long the block's text is; -1: it has ended
}

func (e *OffsetError) Error() string {
	if e.Have < 0 {
		return fmt.Sprintf("block %s: its text has ended", e.Block)
	}
	return fmt.Sprintf("block %s: chunk at offset %d, but the text has %d bytes", e.Block, e.Offset, e.Have)
}

// Unwrap returns ErrConflict.
func (e *OffsetError) Unwrap() error { return thole.ErrConflict }

// BeginTurn begins run's response and marks run as active in the thread's head. With a
// request, it opens a turn with the user's message. Without one, run answers the last
// turn if that waits for an answer, and else opens a turn of its own. It returns the
// turn's id. Errors: ErrNotFound; ErrConflict while a run works on another turn;
// ErrInvalid.
func BeginTurn(tx *thole.Tx, id, run string, request []Block) (string, error) {
	return beginTurn(tx, id, run, request, true)
}

// OpenTurn is [BeginTurn] for a run that leaves the last turn to others: it opens a turn
// of its own also without a request.
func OpenTurn(tx *thole.Tx, id, run string, request []Block) (string, error) {
	return beginTurn(tx, id, run, request, false)
}

func beginTurn(tx *thole.Tx, id, run string, request []Block, answers bool) (string, error) {
	if err := errors.Join(thole.CheckID("run", run), CheckBlocks(request)); err != nil {
		return "", err
	}
	t, err := Load(tx, id)
	if err != nil {
		return "", err
	}
	if t.TurnStatus == Streaming {
		return "", fmt.Errorf("thread %s: %w: turn %s is being run", id, thole.ErrConflict, t.LastTurn)
	}
	added := Added{Run: run}
	switch {
	case len(request) > 0:
		added.Message = &Message{ID: thole.NewID("msg"), Role: User, Blocks: posted(request)}
		added.Turn, added.Reply = "turn_"+suffix(added.Message.ID), thole.NewID("msg")
		t.Messages++
		t.Turns++
	case t.TurnStatus == Pending && answers:
		added.Turn, added.Reply = t.LastTurn, thole.NewID("msg")
	default:
		added.Reply = thole.NewID("msg")
		added.Turn = "turn_" + suffix(added.Reply)
		t.Turns++
	}
	t.Messages++
	t.LastTurn, t.TurnStatus, t.ActiveRun, t.Status = added.Turn, Streaming, run, Busy
	t.put(tx)
	tx.Put(turnKey(id), openTurn{ID: added.Turn, Run: run}, nil)
	tx.Emit(Key(id), "message.added", added)
	return added.Turn, nil
}

// current loads the open turn. Errors: ErrConflict if it is not turn; ErrNotFound if the
// thread is destroyed.
func current(tx *thole.Tx, id, turn string) (*openTurn, error) {
	if _, err := Load(tx, id); err != nil {
		return nil, err
	}
	var o openTurn
	ok, err := tx.Load(turnKey(id), &o)
	if err != nil {
		return nil, err
	}
	if !ok || o.ID != turn {
		return nil, fmt.Errorf("thread %s: %w: turn %s is not being run", id, thole.ErrConflict, turn)
	}
	return &o, nil
}

// PutBlock adds b to the response of a turn that a run works on, or replaces the block
// with b's ID; an empty ID gets a new one. It returns the block's id. No text can be
// appended to the previous block afterwards. Errors: ErrNotFound; ErrConflict when no
// run works on the turn; ErrInvalid, also for a tool block, which [StartTool] adds.
func PutBlock(tx *thole.Tx, id, turn string, b Block) (string, error) {
	if err := b.check(); err != nil {
		return "", err
	}
	if b.Type == ToolUse {
		return "", fmt.Errorf("%w: a tool block is made by starting its tool", thole.ErrInvalid)
	}
	o, err := current(tx, id, turn)
	if err != nil {
		return "", err
	}
	if b.ID == "" {
		b.ID = thole.NewID("blk")
	}
	// Text may be appended to this block.
	o.Block, o.Bytes = b.ID, len(b.Content)
	tx.Put(turnKey(id), o, nil)
	tx.Emit(Key(id), "message.updated", Updated{Turn: turn, Block: b})
	return b.ID, nil
}

// AppendText appends a chunk of text to a turn that a run works on. d.Offset is the
// length of the block's text before the chunk, in bytes. At 0 the chunk begins a block
// with the new id d.Block, of type text unless d.Type is reasoning or code; no text can
// be appended to the previous block afterwards. Errors: ErrNotFound; *OffsetError, also
// for a repeated chunk; ErrConflict when no run works on the turn; ErrInvalid.
func AppendText(tx *thole.Tx, id string, d Delta) error {
	if err := thole.CheckID("blk", d.Block); err != nil {
		return err
	}
	switch {
	case d.Text == "" || !utf8.ValidString(d.Text):
		return fmt.Errorf("%w: a chunk is UTF-8 and not empty", thole.ErrInvalid)
	case d.Type != "" && d.Type != Text && d.Type != Reasoning && d.Type != Code:
		return fmt.Errorf("%w: a block of type %.40q has no streamed text", thole.ErrInvalid, d.Type)
	}
	o, err := current(tx, id, d.Turn)
	if err != nil {
		return err
	}
	switch {
	case o.Block == d.Block && o.Bytes != d.Offset:
		return fmt.Errorf("thread %s: %w", id, &OffsetError{Block: d.Block, Offset: d.Offset, Have: o.Bytes})
	case o.Block != d.Block && d.Offset != 0:
		return fmt.Errorf("thread %s: %w", id, &OffsetError{Block: d.Block, Offset: d.Offset, Have: -1})
	}
	if d.Offset > 0 || d.Type == Text {
		d.Type = "" // set when the block began, or the default
	}
	o.Block, o.Bytes = d.Block, d.Offset+len(d.Text)
	tx.Put(turnKey(id), o, nil)
	tx.Emit(Key(id), "message.delta", d)
	return nil
}

// StartTool adds a tool block without a result to a turn that a run works on, and
// returns the block's id; an empty block gets a new one. Errors: ErrNotFound;
// ErrConflict when no run works on the turn or the block was started before; ErrInvalid.
func StartTool(tx *thole.Tx, id, turn, block string, tool Tool) (string, error) {
	if block == "" {
		block = thole.NewID("blk")
	}
	b := Block{ID: block, Type: ToolUse, Status: toolStatus["tool.started"], Tool: &tool}
	if err := b.check(); err != nil {
		return "", err
	}
	o, err := current(tx, id, turn)
	if err != nil {
		return "", err
	}
	if _, twice := o.Tools[block]; twice {
		return "", fmt.Errorf("thread %s: %w: tool block %s was started before", id, thole.ErrConflict, block)
	}
	if o.Tools == nil {
		o.Tools = make(map[string]call)
	}
	o.Tools[block] = call{Name: tool.Name, OperationID: tool.OperationID, Started: tx.Now().UnixMicro()}
	o.Block, o.Bytes = "", 0
	tx.Put(turnKey(id), o, nil)
	tx.Emit(Key(id), "tool.started", Updated{Turn: turn, Block: b})
	return block, nil
}

// toolStatus maps an event to the status of the tool block after it.
var toolStatus = map[string]string{"tool.started": Streaming, "tool.completed": Done, "tool.failed": Error}

// ToolResult is the end of a tool call.
type ToolResult struct {
	Result json.RawMessage
	Meta   map[string]json.RawMessage
	Failed bool // tool.failed instead of tool.completed
}

// FinishTool adds the result to a tool block and emits tool.completed or tool.failed.
// Errors: ErrNotFound; ErrConflict when no run works on the turn or the block does not
// wait for a result, so that each has one result; ErrTooLarge.
func FinishTool(tx *thole.Tx, id, turn, block string, r ToolResult) error {
	o, err := current(tx, id, turn)
	if err != nil {
		return err
	}
	c, ok := o.Tools[block]
	if !ok {
		return fmt.Errorf("thread %s: %w: tool block %s waits for no result", id, thole.ErrConflict, block)
	}
	delete(o.Tools, block)
	tx.Put(turnKey(id), o, nil)
	typ := "tool.completed"
	if r.Failed {
		typ = "tool.failed"
	}
	tx.Emit(Key(id), typ, Updated{Turn: turn, Block: Block{ID: block, Type: ToolUse, Status: toolStatus[typ], Meta: r.Meta,
		Tool: &Tool{Name: c.Name, Result: r.Result, OperationID: c.OperationID, DurationMS: max(0, tx.Now().UnixMicro()-c.Started) / 1000}}})
	return nil
}

// FinishTurn ends the turn that run works on, with status done, error or interrupted,
// and emits message.completed. Unfinished blocks then read as interrupted (streamed
// text of a done turn as complete), and no run is active in the thread. If run has no
// turn yet, it only stops being active. Errors: ErrNotFound; ErrConflict when run is
// not the active one.
func FinishTurn(tx *thole.Tx, id, run, status string, usage *Usage) error {
	t, err := Load(tx, id)
	if err != nil {
		return err
	}
	if t.ActiveRun != run {
		return fmt.Errorf("thread %s: %w: run %s is not active in it", id, thole.ErrConflict, run)
	}
	if t.TurnStatus == Streaming {
		t.endTurn(tx, status, usage)
	}
	t.ActiveRun, t.Status = "", Idle
	t.put(tx)
	return nil
}

// endTurn ends the turn that a run works on.
func (t *Thread) endTurn(tx *thole.Tx, status string, usage *Usage) {
	tx.Delete(turnKey(t.ID))
	tx.Emit(Key(t.ID), "message.completed", Completed{Turn: t.LastTurn, Status: status, Usage: usage})
	t.TurnStatus = ""
}

// DropTurn removes the last turn, which must have ended, from the thread's history and
// emits thread.rewound. Its events stay in the journal. Errors: ErrNotFound;
// ErrConflict when turn is not the last one or has not ended.
func DropTurn(tx *thole.Tx, id, turn, run string) error {
	t, err := Load(tx, id)
	if err != nil {
		return err
	}
	if t.LastTurn != turn || t.TurnStatus == Streaming {
		return fmt.Errorf("thread %s: %w: turn %s is not the last one that ended", id, thole.ErrConflict, turn)
	}
	t.Turns, t.LastTurn, t.TurnStatus = t.Turns-1, "", ""
	t.put(tx)
	tx.Emit(Key(id), "thread.rewound", Rewound{Turns: []string{turn}, Run: run})
	return nil
}
