package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/internal/merge3"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/lock"
)

// This file holds what the project's space is told of files. All of it happens
// under the lock of the path.

// lastWritten returns what the agent's first edit of a file that it has not
// read in this run starts from: the content that is on record, which past turns
// speak of; what is there now, if there is no such record.
func (c *Context) lastWritten(ctx context.Context, path string, now view) view {
	known, err := c.Files.Get(ctx, path)
	if err != nil || known.Hash == "" || known.Hash == now.hash {
		return now
	}
	blob, err := c.Space.OpenBlob(ctx, known.Hash)
	if err != nil {
		return now // it was never kept
	}
	content, err := io.ReadAll(io.LimitReader(blob, sandbox.MaxFileBytes))
	if err != nil || sandbox.Hash(content) != known.Hash {
		return now
	}
	return view{hash: known.Hash, content: string(content)}
}

// found tells the screens if the file is not what is on record: someone edited
// it without telling.
func (c *Context) found(ctx context.Context, sp *thole.Space, path, hash string) error {
	files := file.In(sp)
	known, err := files.Get(ctx, path)
	if err != nil || !known.Known || known.Hash == hash {
		return err
	}
	_, err = files.Found(ctx, path, hash)
	return err
}

// changed tells that this run made after out of before, and keeps both.
func (c *Context) changed(ctx context.Context, sp *thole.Space, path string, before, after view) error {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	var stale *file.StaleError
	_, err := file.In(sp).Changed(ctx, path, before.hash, after.hash,
		&file.Contents{Before: []byte(before.content), After: []byte(after.content)})
	if errors.As(err, &stale) { // the record was behind: reality is right
		_, err = file.In(sp).Found(ctx, path, after.hash)
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
func (c *Context) conflict(ctx context.Context, sp *thole.Space, path string, p *prepared) (Output, error) {
	out := Output{
		Text: conflictText(path, p),
		Meta: map[string]any{"file_path": path, "conflicts": len(p.conflicts)},
	}
	if _, err := sp.PutBlob(ctx, bytes.NewReader([]byte(p.wanted)), nil); err != nil {
		return out, err
	}
	if err := c.found(ctx, sp, path, p.now.hash); err != nil {
		return out, err
	}
	r := rejected{Diff: p.diff()}
	if p.refused != nil {
		r.Reason = p.refused.Error()
	}
	for _, k := range p.conflicts {
		r.Conflicts = append(r.Conflicts, rejectedPart(k))
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return out, err
	}
	if len(raw) > maxInput { // the blobs have it all
		raw = nil
	}
	ours := sandbox.Hash([]byte(p.wanted))
	if err := file.In(sp).Conflict(ctx, file.Conflict{Path: path, Base: p.base.hash, Ours: ours, Theirs: p.now.hash, Rejected: raw}); err != nil {
		return out, err
	}
	out.Meta["base_hash"], out.Meta["ours_hash"], out.Meta["theirs_hash"] = p.base.hash, ours, p.now.hash
	return out, fmt.Errorf("%w: nothing of your change to %s was applied", thole.ErrConflict, path)
}

// lookAround compares the files that the run has touched with what is on
// record. What changed is told as done by actor, or by a person for "". A file
// that is being edited is left to its editor.
func (c *Context) lookAround(ctx context.Context, actor string) error {
	for _, path := range c.work.files() {
		err := c.Locks.Do(ctx, path, &lock.Options{Owner: c.Run + "/look"}, func(ctx context.Context, sp *thole.Space) error {
			_, hash, err := c.Sandbox.ReadFile(path)
			if err != nil && !errors.Is(err, thole.ErrNotFound) {
				return nil // not a file any more: nothing that a record could say
			}
			if actor == "" {
				return c.found(ctx, sp, path, hash)
			}
			known, err := c.Files.Get(ctx, path)
			if err != nil || !known.Known || known.Hash == hash {
				return err
			}
			c.work.change(path)
			_, err = file.In(sp.As(actor)).Changed(ctx, path, known.Hash, hash, nil)
			return err
		})
		if err != nil && !errors.Is(err, thole.ErrConflict) {
			return err
		}
	}
	return nil
}
