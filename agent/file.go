package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/internal/merge3"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/lock"
)

// This file holds what a run knows of files, and what it tells the space of them.
// The latter happens under the lock of the path.

// work is what a run and its sub-agents did to files together.
type work struct {
	mu      sync.Mutex
	touched []string // in the order of their first touch
	open    bool     // something was changed since the last "done"
}

// touch notes that a file was read or changed.
func (w *work) touch(path string, changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = w.open || changed
	if !slices.Contains(w.touched, path) {
		w.touched = append(w.touched, path)
	}
}

// state returns the files, and whether work on them is open, which it ends if done
// is set.
func (w *work) state(done bool) (files []string, open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	open, w.open = w.open, w.open && !done
	return slices.Clone(w.touched), open
}

// lastSeen returns what a change of a file starts from: what the agent last saw of
// it in this run or else, for an edit, the content on record, which past turns
// speak of; nil if there is none.
func (c *Context) lastSeen(ctx context.Context, path string, create bool) *sandbox.View {
	if seen, ok := c.seen.Load(path); ok {
		v := seen.(sandbox.View)
		return &v
	}
	known, err := c.Files.Get(ctx, path)
	if create || err != nil || known.Hash == "" {
		return nil
	}
	blob, err := c.Space.OpenBlob(ctx, known.Hash)
	if err != nil {
		return nil // it was never kept
	}
	content, err := io.ReadAll(io.LimitReader(blob, sandbox.MaxFileBytes))
	if err != nil || sandbox.Hash(content) != known.Hash {
		return nil
	}
	return &sandbox.View{Hash: known.Hash, Content: string(content)}
}

// found tells the screens if the file is not what is on record: someone edited
// it without telling.
func (c *Context) found(ctx context.Context, sp *thole.Space, path, hash string) error {
	files := file.In(sp)
	known, err := files.Get(ctx, path)
	if err == nil && known.Known && known.Hash != hash {
		_, err = files.Found(ctx, path, hash)
	}
	return err
}

// changed tells that this run made after out of what was there, and keeps both.
func (c *Context) changed(ctx context.Context, sp *thole.Space, m *sandbox.Merge, after sandbox.View) error {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	_, err := file.In(sp).Changed(ctx, m.Path, m.Now.Hash, after.Hash,
		&file.Contents{Before: []byte(m.Now.Content), After: []byte(after.Content)})
	if errors.As(err, new(*file.StaleError)) { // the record was behind: reality is right
		_, err = file.In(sp).Found(ctx, m.Path, after.Hash)
	}
	return err
}

// rejected is what a conflict event says was not applied.
type rejected struct {
	Conflicts []rejectedPart `json:"conflicts,omitempty"`
	Reason    string         `json:"reason,omitempty"` // another one than conflicts
	Diff      string         `json:"diff,omitempty"`   // the whole change, from what the agent last read
}

type rejectedPart struct {
	Base   merge3.Part `json:"base"`
	Ours   merge3.Part `json:"ours"`
	Theirs merge3.Part `json:"theirs"`
}

// conflict reports a change that was not applied: to the model, and as
// file.conflict to all others. What the agent wanted is kept as a blob.
func (c *Context) conflict(ctx context.Context, sp *thole.Space, m *sandbox.Merge, out *Output) error {
	out.Text, out.Meta["conflicts"] = m.Report(), len(m.Conflicts)
	if !m.Exists {
		c.seen.Delete(m.Path)
	}
	if _, err := sp.PutBlob(ctx, bytes.NewReader([]byte(m.Wanted)), nil); err != nil {
		return err
	}
	if err := c.found(ctx, sp, m.Path, m.Now.Hash); err != nil {
		return err
	}
	r := rejected{Diff: m.Diff()}
	if m.Refused != nil {
		r.Reason = m.Refused.Error()
	}
	for _, k := range m.Conflicts {
		r.Conflicts = append(r.Conflicts, rejectedPart(k))
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(raw) > maxInput { // the blobs have it all
		raw = nil
	}
	ours := sandbox.Hash([]byte(m.Wanted))
	if err := file.In(sp).Conflict(ctx, file.Conflict{Path: m.Path, Base: m.Base.Hash, Ours: ours, Theirs: m.Now.Hash, Rejected: raw}); err != nil {
		return err
	}
	out.Meta["base_hash"], out.Meta["ours_hash"], out.Meta["theirs_hash"] = m.Base.Hash, ours, m.Now.Hash
	return fmt.Errorf("%w: nothing of your change to %s was applied", thole.ErrConflict, m.Path)
}

// lookAround compares the files that the run has touched with what is on
// record. What changed is told as done by actor, or by a person for "". A file
// that is being edited is left to its editor.
func (c *Context) lookAround(ctx context.Context, actor string) error {
	for _, path := range c.FilesTouched() {
		err := c.Locks.Do(ctx, path, &lock.Options{Owner: c.Run + "/look"}, func(ctx context.Context, sp *thole.Space) error {
			_, hash, err := c.Sandbox.ReadFile(path)
			if err != nil && !errors.Is(err, thole.ErrNotFound) {
				return nil // not a file any more: nothing that a record could say
			}
			if actor == "" {
				return c.found(ctx, sp, path, hash)
			}
			known, err := c.Files.Get(ctx, path)
			if err == nil && known.Known && known.Hash != hash {
				c.work.touch(path, true)
				_, err = file.In(sp.As(actor)).Changed(ctx, path, known.Hash, hash, nil)
			}
			return err
		})
		if err != nil && !errors.Is(err, thole.ErrConflict) {
			return err
		}
	}
	return nil
}
