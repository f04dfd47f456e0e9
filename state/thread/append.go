package thread

import (
	"context"
	"fmt"
	"slices"

	"github.com/thole-dev/thole"
)

// AppendOptions of [Threads.Append].
type AppendOptions struct {
	IfMatch thole.Position // the head's version must be this; zero: any
}

// Appended is what [Threads.Append] stored.
type Appended struct {
	Message
	Version thole.Position `json:"version"` // of the head then
}

// Append posts a message with m.Role and m.Blocks and ignores m's other fields. A
// user's or a system message opens a turn. An assistant's message answers the last turn
// if that waits for an answer, and else opens a turn. While a run works on the last
// turn, any message joins that turn.
//
// It returns the message as stored. A repeat under an idempotency key returns the first
// call's message. Errors: ErrNotFound, ErrInvalid, ErrTooLarge, *ConflictError when
// IfMatch does not hold. It is one commit.
func (ts *Threads) Append(ctx context.Context, id string, m Message, opts *AppendOptions) (*Appended, error) {
	ctx = thole.Call(ctx, "thread.append", id)
	ctx = thole.Reread(ctx, rereadAppended)
	out, r, err := thole.Update(ctx, ts.sp, func(tx *thole.Tx) (*Message, error) {
		if opts != nil {
			if err := Require(tx, id, opts.IfMatch); err != nil {
				return nil, err
			}
		}
		return Append(tx, id, m)
	})
	if err != nil {
		return nil, fmt.Errorf("append to thread %s: %w", id, err)
	}
	out.Position = r.Last
	return &Appended{Message: *out, Version: r.Last}, nil
}

// Append is [Threads.Append] within tx. The result has no position yet.
func Append(tx *thole.Tx, id string, m Message) (*Message, error) {
	if err := checkRole(m.Role); err != nil {
		return nil, err
	}
	if len(m.Blocks) == 0 {
		return nil, fmt.Errorf("%w: a message has a block", thole.ErrInvalid)
	}
	if err := CheckBlocks(m.Blocks); err != nil {
		return nil, err
	}
	t, err := Load(tx, id)
	if err != nil {
		return nil, err
	}
	msg := &Message{ID: thole.NewID("msg"), Role: m.Role, Blocks: posted(m.Blocks)}
	joins := t.TurnStatus == Streaming || t.TurnStatus == Pending && m.Role == Assistant
	if !joins {
		t.Turns++
		t.LastTurn = "turn_" + suffix(msg.ID)
	}
	if t.TurnStatus != Streaming {
		t.TurnStatus = ""
		if m.Role == User {
			t.TurnStatus = Pending
		}
	}
	t.Messages++
	t.put(tx)
	tx.Emit(Key(id), "message.added", Added{Turn: t.LastTurn, Message: msg})

	out := *msg
	out.Turn, out.Time, out.Blocks = t.LastTurn, tx.Now(), numbered(msg)
	return &out, nil
}

// Post posts a turn in one commit: what the user said and, unless response is nil, the answer
// to it. While a run works on the last turn, both join that turn; the result then holds only
// what was posted, and the run. It also returns the version of the head then. A repeat under
// an idempotency key returns the first call's turn. Errors: those of [Threads.Append].
func (ts *Threads) Post(ctx context.Context, id string, request, response []Block, opts *AppendOptions) (*Turn, thole.Position, error) {
	ctx = thole.Call(ctx, "thread.post", id)
	ctx = thole.Reread(ctx, rereadPosted)
	t, r, err := thole.Update(ctx, ts.sp, func(tx *thole.Tx) (*Turn, error) {
		if opts != nil {
			if err := Require(tx, id, opts.IfMatch); err != nil {
				return nil, err
			}
		}
		said, err := Append(tx, id, Message{Role: User, Blocks: request})
		if err != nil {
			return nil, err
		}
		t := said.turn()
		if response != nil {
			answer, err := Append(tx, id, Message{Role: Assistant, Blocks: response})
			if err != nil {
				return nil, err
			}
			t.Status, t.Response = Done, answer.Blocks
		}
		head, err := Load(tx, id)
		if err == nil && head.TurnStatus == Streaming {
			t.Status, t.Run = Streaming, head.ActiveRun
		}
		return t, err
	})
	if err != nil {
		return nil, thole.Position{}, fmt.Errorf("post a turn to thread %s: %w", id, err)
	}
	t.Position = r.First
	return t, r.Last, nil
}

// turn returns the turn that a user's message opens.
func (m *Message) turn() *Turn {
	return &Turn{ID: m.Turn, Status: Pending, Request: m.Blocks, Response: []Block{}, Time: m.Time, Position: m.Position}
}

// posted returns the blocks as they are stored: without ids.
func posted(blocks []Block) []Block {
	out := slices.Clone(blocks)
	for i := range out {
		out[i].ID = ""
	}
	return out
}

// numbered returns the blocks of a posted message with their ids.
func numbered(m *Message) []Block {
	out := make([]Block, len(m.Blocks))
	for i, b := range m.Blocks {
		out[i] = b.clone()
		if out[i].ID == "" {
			out[i].ID = sibling("blk", m.ID, i+1)
		}
	}
	return out
}
