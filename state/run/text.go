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

// Bounds of text: of one event, and of all that goes into one commit, which
// must have room for what is committed with it. JSON may take six times as much.
const (
	maxChunk     = 64 << 10
	maxSent      = 64
	maxSentBytes = 512 << 10
)

// text is what was streamed and is not committed yet. Every delta is broadcast
// at once, with the offset that its committed chunk will cover.
type text struct {
	mu      sync.Mutex
	driven  bool           // Do commits in the background
	block   string         // the one that is being written; "": the next delta begins one
	typ     string         // its type
	end     int            // its bytes so far
	pending []thread.Delta // in order
	bytes   int            // in pending
	sent    []thread.Delta // went into a commit before pending; kept until it is known to have happened
	armed   chan struct{}  // capacity 1: something is pending
	lost    error          // why no text can be committed any more
}

// Text streams text of the response: it is broadcast at once as message.delta
// and committed with what comes within 100 ms or 4 KiB. Outside [Handle.Do],
// each call is committed at once. Errors: ErrInvalid for what is not UTF-8, and
// those of the commit; once it is known that the thread is gone or that another has
// the run, ErrNotFound or ErrFenced: then text of earlier calls may be lost, too.
// ErrInvalid under an idempotency key: whoever repeats text says where it belongs,
// with [Handle.Append].
func (h *Handle) Text(ctx context.Context, delta string) error {
	return h.stream(ctx, thread.Text, delta)
}

// Reasoning is [Handle.Text] for what the model thinks aloud.
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

// add takes a piece of text in and broadcasts it, in order. It reports whether it
// is time to commit.
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

// take returns what to commit now, until done is called. Again is set when that
// went into a commit before, which may have happened; more, when there is text
// that did not fit.
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

// done forgets what take returned.
func (t *text) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = nil
}

// drop forgets all text that is not committed.
func (t *text) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent, t.pending, t.bytes = nil, nil, 0
}

// lose makes all later text fail with err, which says that the run or its thread is
// gone.
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

// cut ends the text block, as another block is about to begin: the next delta
// begins one too. The returned function undoes that if none has come.
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

// Whether what write commits ends the text block that is being streamed.
const (
	goesOn = false
	cuts   = true
)

// write commits what text is pending and what fn asks for, as one step, unless the
// run's thread is gone: then it returns goneError.
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

// commitText is write whether the thread is there or not; text needs it. fn may be nil.
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
		if err != nil && !(again && errors.As(err, &off)) { // an OffsetError: it had happened
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
		if refused != nil { // else it may have happened, and the block with it has ended
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

// gone reports whether err says that a run is not its worker's any more, or has no
// thread.
func gone(err error) bool {
	return errors.Is(err, thole.ErrNotFound) || errors.Is(err, thole.ErrFenced)
}

// flushLoop commits streamed text soon after it came, until ctx ends. What
// cannot be committed now stays for the next time.
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
