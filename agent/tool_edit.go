package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/internal/merge3"
	"github.com/thole-dev/thole/state/decision"
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
	opts := &lock.Options{Owner: c.Run + "/" + call.ID, Wait: -1, Dead: c.hasEnded}
	err = c.Locks.Do(ctx, path, opts, func(ctx context.Context, sp *thole.Space) error {
		out, err = c.changeLocked(ctx, sp, call, path, ch)
		return err
	})
	return out, err
}

// hasEnded reports whether the owner of a lock is a call of a run that has ended, or
// whose lease has. A worker of such a run may be late, but confirm lets it change
// nothing.
func (c *Context) hasEnded(ctx context.Context, owner string) bool {
	id, _, ok := strings.Cut(owner, "/")
	if !ok || id == c.Run || !strings.HasPrefix(id, "run_") {
		return false
	}
	r, err := c.Runs.Get(ctx, id)
	return err == nil && r.Ended()
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
	refused   error  // another reason why it cannot be applied, which others gave
	remark    string // what the model must know of a change that was made
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
	act := action{Path: path, Before: p.now.hash, After: sandbox.Hash([]byte(p.final))}
	e, err := c.plan(ctx, call, act)
	if err != nil {
		return nil, err
	}
	stale := error(nil) // why this worker must not act any more
	opts := &sandbox.EditOptions{Confirm: func() error { stale = c.confirm(ctx); return stale }}
	if p.exists {
		_, err = c.Sandbox.Replace(path, p.now.hash, []byte(p.final), opts)
	} else {
		_, err = c.Sandbox.Create(path, []byte(p.final), opts)
	}
	if stale != nil {
		return nil, errors.Join(stale, e.never(ctx, stale))
	}
	if err != nil {
		// An error does not tell whether the new content is in place. The file does.
		state, r, lookErr := look(c.Sandbox, &act)
		others := errors.As(err, new(*sandbox.ChangedError)) || errors.Is(err, sandbox.ErrBusy)
		switch {
		case state == decision.Done:
			p.remark = fmt.Sprintf("\n[the change is in place, but: %v]", err)
		case others || state == decision.Failed:
			if settleErr := e.never(ctx, err); settleErr != nil {
				return nil, settleErr
			}
			if others {
				return err, nil
			}
			return nil, err
		default:
			r.Error = errors.Join(err, lookErr).Error()
			return nil, errors.Join(fmt.Errorf("whether %s has the change is unknown: %w", path, err), e.settle(ctx, decision.Unknown, r))
		}
	}
	c.work.change(path)
	now := view{hash: act.After, content: p.final}
	c.seen.set(path, now)
	err = c.changed(ctx, sp, path, p.now, now)
	if !errors.Is(err, thole.ErrFenced) { // else who settles it tells the screens, too
		err = errors.Join(err, e.settle(ctx, decision.Done, outcome{Hash: act.After, Merged: p.merged(), Error: strings.TrimSpace(p.remark)}))
	}
	if err != nil {
		return nil, fmt.Errorf("%s has the change, but not all of it could be recorded: %w", path, err)
	}
	return nil, nil
}

// confirm proves that the run is still this worker's, by renewing its lease, and
// still wanted.
func (c *Context) confirm(ctx context.Context) error {
	if err := c.wanted(ctx); err != nil {
		return err
	}
	return c.handle.Heartbeat(ctx)
}

// report tells the model what became of its change.
func (p *prepared) report(path string) string {
	switch {
	case !p.exists:
		return "Created " + path + p.remark
	case !p.merged():
		return "Changed " + path + p.remark
	}
	theirs := merge3.Unified("you read", "was there", p.base.content, p.now.content)
	return fmt.Sprintf("Changed %s. Someone else had changed it since you last read it; both changes are in it now.%s Theirs:\n%s", path, p.remark, cut(theirs, maxShown))
}
