package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/internal/merge3"
	"github.com/thole-dev/thole/state/lock"
)

type writeInput struct {
	FilePath string `json:"file_path" jsonschema:"description=Relative to the project; directories are made"`
	Content  string `json:"content" jsonschema:"description=The whole new content"`
}

type editInput struct {
	FilePath   string `json:"file_path" jsonschema:"description=Relative to the project"`
	OldString  string `json:"old_string" jsonschema:"minLength=1,description=The text to replace\\, exactly as in the file; it must be there once"`
	NewString  string `json:"new_string" jsonschema:"description=What comes in its place"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"description=Replace every occurrence"`
}

// WriteTool makes a file or replaces the content of one that the agent has
// read.
func WriteTool() Tool {
	return NewTool("Write", "Writes a whole file. One that exists must have been read before; to change a part of it, use Edit.", write, nil)
}

// EditTool replaces a piece of text in a file.
func EditTool() Tool {
	return NewTool("Edit", "Replaces text in a file. What others changed in it since you read it is kept, or you are told of the conflict.", edit, nil)
}

func write(ctx context.Context, c *Context, call *Call, in writeInput) (Output, error) {
	return c.changeFile(ctx, call, in.FilePath, fileChange{
		want:  func(string) (string, error) { return in.Content, nil },
		whole: true,
	})
}

func edit(ctx context.Context, c *Context, call *Call, in editInput) (Output, error) {
	return c.changeFile(ctx, call, in.FilePath, fileChange{want: replaceString(in.OldString, in.NewString, in.ReplaceAll)})
}

// fileChange is what a tool wants to do to a file.
type fileChange struct {
	want  change
	whole bool // the new content does not depend on the old one, which need not exist
}

// maxTries is how often a change is merged with what others do at the very same
// moment before it is given up.
const maxTries = 8

// changeFile makes a change to a file, based on what the agent last saw of it:
//
//	lock the path                  agents take turns; people do not ask
//	merge with what is there now   or report the conflict, with nothing applied
//	plan a decision                with the hashes before and after
//	replace, if it is still so     else merge again with what came in between
//	tell: file.changed, outcome    under the lock's fence
func (c *Context) changeFile(ctx context.Context, call *Call, name string, ch fileChange) (Output, error) {
	path, err := sandbox.Clean(name)
	if err != nil {
		return Output{}, err
	}
	var out Output
	opts := &lock.Options{Owner: c.Run + "/" + call.ID, Wait: -1}
	err = c.Locks.Do(ctx, path, opts, func(ctx context.Context, sp *thole.Space) error {
		out, err = c.changeLocked(ctx, sp, call, path, ch)
		return err
	})
	return out, err
}

// changeLocked is changeFile under the path's lock, which sp is fenced by.
func (c *Context) changeLocked(ctx context.Context, sp *thole.Space, call *Call, path string, ch fileChange) (Output, error) {
	out := Output{Meta: map[string]any{"file_path": path}}
	for try := 1; ; try++ {
		p, err := c.prepare(ctx, path, ch)
		if err != nil {
			return out, err
		}
		if len(p.conflicts) > 0 || p.refused != nil {
			return c.conflict(ctx, sp, path, p)
		}
		if p.exists && p.final == p.now.content {
			c.seen.set(path, p.now)
			out.Text = path + " has this content already; nothing was changed."
			return out, nil
		}
		if err := c.found(ctx, sp, path, p.now.hash); err != nil {
			return out, err
		}
		if p.refused, err = c.apply(ctx, sp, call, path, p); err != nil {
			return out, err
		}
		if p.refused == nil {
			out.Text = p.report(path)
			out.Meta["before_hash"], out.Meta["after_hash"] = p.now.hash, sandbox.Hash([]byte(p.final))
			out.Meta["merged"] = p.merged()
			return out, nil
		}
		var changed *sandbox.ChangedError
		if again := errors.As(p.refused, &changed) && changed.Kept == ""; !again || try == maxTries {
			return c.conflict(ctx, sp, path, p)
		}
	}
}

// prepared is a change worked out against what is in the file.
type prepared struct {
	base      view // what the agent last saw
	now       view // what is there
	exists    bool
	wanted    string // base with the change
	final     string // now with the change
	conflicts []merge3.Conflict
	refused   error // another reason why it cannot be applied, which others gave
}

// diff is the whole change, for people to read.
func (p *prepared) diff() string {
	if errors.Is(p.refused, errNoText) {
		return ""
	}
	return merge3.Unified("last read", "yours", p.base.content, p.wanted)
}

func (p *prepared) merged() bool { return p.exists && p.base.hash != p.now.hash }

func (c *Context) prepare(ctx context.Context, path string, ch fileChange) (*prepared, error) {
	p := &prepared{}
	content, hash, err := c.Sandbox.ReadFile(path)
	missing := errors.Is(err, thole.ErrNotFound)
	var known bool
	p.base, known = c.seen.get(path)
	if err != nil && !(missing && (ch.whole || known)) {
		return nil, err
	}
	p.now, p.exists = view{hash: hash, content: string(content)}, !missing
	switch {
	case missing && known:
		c.seen.forget(path)
		p.refused = errRemoved
		p.wanted, err = ch.want(p.base.content)
		return p, err
	case missing:
		p.wanted, err = ch.want("")
		p.final = p.wanted
		return p, err
	case !known && ch.whole:
		return nil, fmt.Errorf("%w: %s exists and you have not read it; read it first, so that nothing in it is lost", thole.ErrConflict, path)
	case !known:
		p.base = c.lastWritten(ctx, path, p.now)
	}
	p.wanted, err = ch.want(p.base.content)
	if err != nil && p.base.hash != p.now.hash {
		// The agent may know the text from elsewhere: a command's output, or a
		// report of a conflict. What it asks for is what is there, then.
		p.base = p.now
		p.wanted, err = ch.want(p.now.content)
	}
	if err != nil {
		return nil, err
	}
	p.final, p.conflicts, err = merged(p.base.content, p.wanted, p.now.content)
	if errors.Is(err, merge3.ErrBinary) {
		p.refused, err = errNoText, nil
	}
	return p, err
}

// Reasons for which a change is not applied that others gave.
var (
	errRemoved = errors.New("it was removed by someone else since you last read it; to make it anew, write it again")
	errNoText  = errors.New("it was changed by someone else since you last read it, and is no text that could be merged")
)

// apply puts a prepared change in place, between its decision and its outcome.
// It returns what others did that kept it from being applied: a
// *sandbox.ChangedError, or sandbox.ErrBusy.
func (c *Context) apply(ctx context.Context, sp *thole.Space, call *Call, path string, p *prepared) (refused, _ error) {
	after := sandbox.Hash([]byte(p.final))
	e, err := c.plan(ctx, call, action{Path: path, Before: p.now.hash, After: after})
	if err != nil {
		return nil, err
	}
	if p.exists {
		_, err = c.Sandbox.Replace(path, p.now.hash, []byte(p.final))
	} else {
		_, err = c.Sandbox.Create(path, []byte(p.final))
	}
	if err == nil {
		c.work.change(path)
		c.seen.set(path, view{hash: after, content: p.final})
		if err := c.changed(ctx, sp, path, p.now, view{hash: after, content: p.final}); err != nil {
			return nil, err
		}
		return nil, e.settle(ctx, nil, map[string]any{"hash": after, "merged": p.merged()})
	}
	if settleErr := e.settle(ctx, err, nil); settleErr != nil {
		return nil, settleErr
	}
	if errors.As(err, new(*sandbox.ChangedError)) || errors.Is(err, sandbox.ErrBusy) {
		return err, nil
	}
	return nil, err
}

// report tells the model what became of its change.
func (p *prepared) report(path string) string {
	switch {
	case !p.exists:
		return "Created " + path
	case !p.merged():
		return "Changed " + path
	}
	theirs := merge3.Unified("you read", "was there", p.base.content, p.now.content)
	return fmt.Sprintf("Changed %s. Someone else had changed it since you last read it; both changes are in it now. Theirs:\n%s", path, cut(theirs, maxShown))
}
