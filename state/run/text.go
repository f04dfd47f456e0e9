package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// Bounds of text in bytes: of one event, and of all text in one commit, together with
// the number of its chunks. They leave room for the rest of the commit, and for JSON,
// which may take six times as much.
const (
	maxChunk     = 64 << 10
	maxSent      = 64
	maxSentBytes = 512 << 10
)

// text is the streamed text that is not committed yet. Every delta is broadcast at
// once, with the offset that it will have in the committed block.
type text struct {
	mu      sync.Mutex
	driven  bool           // Do commits in the background
	block   string         // id of the block being written; "": the next delta begins one
	typ     string         // its type
	end     int            // its length so far in bytes
	pending []thread.Delta // in order
	bytes   int            // in pending
	sent    []thread.Delta // before pending, in a commit that is not known to have happened
	armed   chan struct{}  // capacity 1: something is pending
	lost    error          // why no more text can be committed; nil: it can
}

// Text streams text of the response. It broadcasts the text at once as message.delta
// and commits it later, at most Options.Flush (100 ms) or Options.FlushBytes (4 KiB)
// behind. Outside [Handle.Do] it commits before it returns. Errors: ErrInvalid for
// text that is not UTF-8, or under an idempotency key (use [Handle.Append], which
// names an offset); those of the commit. Once the handle knows that the thread is
// destroyed or that another worker has the run, Text returns ErrNotFound or ErrFenced;
// then text of earlier calls may be lost, too.
func (h *Handle) Text(ctx context.Context, delta string) error {
	return h.stream(ctx, thread.Text, delta)
}

// Reasoning is [Handle.Text] for the model's reasoning.
func (h *Handle) Reasoning(ctx context.Context, delta string) error {
	return h.stream(ctx, thread.Reasoning, delta)
}

func (h *Handle) stream(ctx context.Context, typ, delta string) error {
	if err := thole.RefuseIdempotencyKey(ctx, "streamed text", "append it at its offset instead"); err != nil {
		return fmt.Errorf("run %s: %w", h.id, err)
	}
	if !utf8.ValidString(delta) {
		return fmt.Errorf("run %s: %w: text is not UTF-8", h.id, thole.ErrInvalid)
	}
	now := false
	for len(delta) > 0 {
		n := min(len(delta), maxChunk)
		for n < len(delta) && !utf8.RuneStart(delta[n]) {
			n--
		}
		full, err := h.text.add(h, typ, delta[:n])
		if err != nil {
			return err
		}
		now = now || full
		delta = delta[n:]
	}
	if now {
		return h.Flush(ctx)
	}
	return nil
}

// add appends a piece of text to pending and broadcasts it, in order. It reports
// whether to commit now.
func (t *text) add(h *Handle, typ, piece string) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost != nil {
		return false, t.lost
	}
	if t.block == "" || t.typ != typ {
		t.block, t.typ, t.end = thole.NewID("blk"), typ, 0
	}
	d := thread.Delta{Turn: h.turn, Block: t.block, Offset: t.end, Text: piece}
	if typ != thread.Text {
		d.Type = typ
	}
	t.end += len(piece)
	if n := len(t.pending); n > 0 && t.pending[n-1].Block == t.block && len(t.pending[n-1].Text)+len(piece) <= maxChunk {
		t.pending[n-1].Text += piece
	} else {
		t.pending = append(t.pending, d)
	}
	t.bytes += len(piece)
	select {
	case t.armed <- struct{}{}:
	default:
	}
	return !t.driven || t.bytes >= h.rs.opts.FlushBytes, h.sp.Broadcast(thread.Key(h.thread), "message.delta", d)
}

// take returns the chunks to commit now; it returns the same ones until done is
// called. Again reports that an earlier commit held them and may have happened; more
// reports that other text is still pending.
func (t *text) take() (chunks []thread.Delta, again, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if again = len(t.sent) > 0; !again {
		n, size := 0, 0
		for n < min(len(t.pending), maxSent) && (n == 0 || size+len(t.pending[n].Text) <= maxSentBytes) {
			size += len(t.pending[n].Text)
			n++
		}
		t.sent, t.pending, t.bytes = t.pending[:n:n], t.pending[n:], t.bytes-size
	}
	return t.sent, again, len(t.pending) > 0
}

// done drops the chunks that take returned.
func (t *text) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = nil
}

// drop drops all text that is not committed.
func (t *text) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent, t.pending, t.bytes = nil, nil, 0
}

// lose makes all later text fail with err: the worker has lost the run, or its thread
// is destroyed.
func (t *text) lose(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = err
}

func (t *text) setDriven(driven bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.driven = driven
}

// cut ends the text block because another block follows: the next delta begins a new
// one. The returned function undoes that, unless a delta has come since.
func (t *text) cut() (undo func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	block := t.block
	t.block = ""
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.block == "" {
			t.block = block
		}
	}
}

// Flush commits all text so far.
func (h *Handle) Flush(ctx context.Context) error {
	ctx = thole.Call(ctx, "run.flush", h.id)
	_, _, err := write(ctx, h, goesOn, func(*thole.Tx) (none, error) { return none{}, nil })
	return err
}

// Values of write's cut: whether the commit ends the text block being streamed.
const (
	goesOn = false
	cuts   = true
)

// write commits the pending text and fn's changes in one commit; text that does not
// fit goes into commits before it. If the run's thread is destroyed it returns
// goneError.
func write[T any](ctx context.Context, h *Handle, cut bool, fn func(tx *thole.Tx) (T, error)) (T, thole.Receipt, error) {
	return commitText(ctx, h, cut, func(tx *thole.Tx) (T, error) {
		if err := h.there(tx); err != nil {
			return *new(T), err
		}
		if err := h.lapse(tx); err != nil {
			return *new(T), err
		}
		return fn(tx)
	})
}

// commitText is write without the check for a destroyed thread, which only text needs.
// fn may be nil.
func commitText[T any](ctx context.Context, h *Handle, cut bool, fn func(tx *thole.Tx) (T, error)) (T, thole.Receipt, error) {
	none := *new(T)
	select {
	case h.commit <- struct{}{}:
		defer func() { <-h.commit }()
	case <-ctx.Done():
		return none, thole.Receipt{}, context.Cause(ctx)
	}
	chunks, again, more := h.text.take()
	for ; again || more; chunks, again, more = h.text.take() {
		_, err := h.sp.Update(thole.WithoutIdempotencyKey(ctx), func(tx *thole.Tx) error { return h.append(tx, chunks) })
		var off *thread.OffsetError
		if err != nil && !(again && errors.As(err, &off)) { // an OffsetError: the earlier commit had happened
			return none, thole.Receipt{}, err
		}
		h.text.done()
	}
	if fn == nil && len(chunks) == 0 {
		return none, thole.Receipt{}, nil
	}
	undo := func() {}
	if cut {
		undo = h.text.cut()
	}
	var refused error
	answer, r, err := thole.Update(ctx, h.sp, func(tx *thole.Tx) (answer T, _ error) {
		if refused = h.append(tx, chunks); refused == nil && fn != nil {
			answer, refused = fn(tx)
		}
		return answer, refused
	})
	if err != nil {
		if refused != nil { // else the commit may have happened and ended the block
			undo()
		}
		return none, r, err
	}
	if !r.Repeated { // else the chunks may have come after the first call
		h.text.done()
	}
	return answer, r, nil
}

func (h *Handle) append(tx *thole.Tx, chunks []thread.Delta) error {
	for _, d := range chunks {
		if err := thread.AppendText(tx, h.thread, d); err != nil {
			if gone := h.there(tx); gone != nil {
				err = gone
			}
			return err
		}
	}
	return nil
}

// gone reports whether err means that the worker has lost the run or that the run's
// thread is destroyed.
func gone(err error) bool {
	return errors.Is(err, thole.ErrNotFound) || errors.Is(err, thole.ErrFenced)
}

// flushLoop commits streamed text soon after it arrives, until ctx ends. After a
// failed commit it tries again.
func (h *Handle) flushLoop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.text.armed:
		}
		timer.Reset(h.rs.opts.Flush)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := h.Flush(ctx)
		if gone(err) {
			h.text.lose(err)
			return
		}
		if err != nil && ctx.Err() == nil {
			select {
			case h.text.armed <- struct{}{}:
			default:
			}
		}
	}
}
