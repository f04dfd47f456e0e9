package agent

import (
	"context"
	"strings"

	"github.com/thole-dev/thole/agent/edit"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/state/decision"
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

// write makes a file or replaces the content of one that the agent has read.
func write(ctx context.Context, c *Context, call *Call, in writeInput) (Output, error) {
	return c.changeFile(ctx, call, in.FilePath, sandbox.Whole(in.Content), true)
}

// editFile replaces a piece of text in a file.
func editFile(ctx context.Context, c *Context, call *Call, in editInput) (Output, error) {
	return c.changeFile(ctx, call, in.FilePath, sandbox.Substitute(in.OldString, in.NewString, in.ReplaceAll), false)
}

// changeFile makes a change to a file as package edit does, and puts it in place as
// one act, whose decision has the hashes before and after.
func (c *Context) changeFile(ctx context.Context, call *Call, name string, change sandbox.Change, create bool) (out Output, err error) {
	path, err := sandbox.Clean(name)
	if err != nil {
		return out, err
	}
	out.Text, out.Meta, err = c.edits.Change(ctx, edit.Change{
		Owner: c.Run + "/" + call.ID, Path: path, Make: change, Create: create,
		Act: func(ctx context.Context, m *sandbox.Merge, place func() (edit.State, error)) error {
			act := action{Path: path, Before: m.Now.Hash, After: sandbox.Hash([]byte(m.Final))}
			return c.act(ctx, call, act, func(string) (outcome, error) {
				switch state, err := place(); {
				case m.Refused != nil:
					return never(m.Refused), nil
				case state == edit.Never:
					return never(err), err
				case state == edit.Unknown:
					return outcome{status: decision.Unknown}, err
				case state == edit.Untold: // whoever settles it tells the screens, too
					return outcome{status: decision.Planned}, err
				default:
					return outcome{status: decision.Done, Hash: act.After, Merged: m.Merged()}, err
				}
			})
		},
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

// confirm proves that the run is still this worker's, by renewing its lease, and
// still wanted.
func (c *Context) confirm(ctx context.Context) error {
	if err := c.wanted(ctx); err != nil {
		return err
	}
	return c.handle.Heartbeat(ctx)
}
