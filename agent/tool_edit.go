package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/sandbox"
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

// write makes a file or replaces the content of one that the agent has read.
func write(ctx context.Context, c *Context, call *Call, in writeInput) (Output, error) {
	return c.changeFile(ctx, call, in.FilePath, sandbox.Whole(in.Content), true)
}

// edit replaces a piece of text in a file.
func edit(ctx context.Context, c *Context, call *Call, in editInput) (Output, error) {
	return c.changeFile(ctx, call, in.FilePath, sandbox.Substitute(in.OldString, in.NewString, in.ReplaceAll), false)
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
func (c *Context) changeFile(ctx context.Context, call *Call, name string, change sandbox.Change, create bool) (Output, error) {
	path, err := sandbox.Clean(name)
	if err != nil {
		return Output{}, err
	}
	out := Output{Meta: map[string]any{"file_path": path}}
	opts := &lock.Options{Owner: c.Run + "/" + call.ID, Wait: -1, Dead: c.hasEnded}
	err = c.Locks.Do(ctx, path, opts, func(ctx context.Context, sp *thole.Space) error {
		for try := 1; ; try++ {
			m, err := c.Sandbox.Merge(path, c.lastSeen(ctx, path, create), change, create)
			if err != nil {
				return err
			}
			if len(m.Conflicts) > 0 || m.Refused != nil {
				return c.conflict(ctx, sp, m, &out)
			}
			if m.Exists && m.Final == m.Now.Content {
				c.seen.Store(path, m.Now)
				out.Text = path + " has this content already; nothing was changed."
				return nil
			}
			if err := c.found(ctx, sp, path, m.Now.Hash); err != nil {
				return err
			}
			if err := c.apply(ctx, sp, call, m, &out); err != nil {
				return err
			}
			if m.Refused == nil {
				return nil
			}
			var changed *sandbox.ChangedError
			if !errors.As(m.Refused, &changed) || changed.Kept != "" || try == maxTries {
				return c.conflict(ctx, sp, m, &out)
			}
		}
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

// apply puts a merged change in place, as one act. What others did that kept it
// from being applied is then m.Refused: a *sandbox.ChangedError, or
// sandbox.ErrBusy.
func (c *Context) apply(ctx context.Context, sp *thole.Space, call *Call, m *sandbox.Merge, out *Output) error {
	after := sandbox.View{Hash: sandbox.Hash([]byte(m.Final)), Content: m.Final}
	act := action{Path: m.Path, Before: m.Now.Hash, After: after.Hash}
	var remark string // what the model must know of a change that was made
	placed := false
	err := c.act(ctx, call, act, func(string) (outcome, error) {
		var stale error // why this worker must not act any more
		err := m.Apply(&sandbox.EditOptions{Confirm: func() error { stale = c.confirm(ctx); return stale }})
		if stale != nil {
			return never(stale), stale
		}
		if err != nil {
			// An error does not tell whether the new content is in place. The file does.
			o, lookErr := look(c.Sandbox, &act)
			others := errors.As(err, new(*sandbox.ChangedError)) || errors.Is(err, sandbox.ErrBusy)
			switch {
			case o.status == decision.Done:
				remark = fmt.Sprintf("\n[the change is in place, but: %v]", err)
			case others:
				m.Refused = err
				return never(err), nil
			case o.status == decision.Failed:
				return never(err), err
			default:
				o.Error = errors.Join(err, lookErr).Error()
				return o, fmt.Errorf("whether %s has the change is unknown: %w", m.Path, err)
			}
		}
		placed = true
		c.work.touch(m.Path, true)
		c.seen.Store(m.Path, after)
		o := outcome{status: decision.Done, Hash: after.Hash, Merged: m.Merged(), Error: strings.TrimSpace(remark)}
		err = c.changed(ctx, sp, m, after)
		if errors.Is(err, thole.ErrFenced) { // whoever settles it tells the screens, too
			o.status = decision.Planned
		}
		return o, err
	})
	switch {
	case err != nil && placed:
		return fmt.Errorf("%s has the change, but not all of it could be recorded: %w", m.Path, err)
	case err != nil || m.Refused != nil:
		return err
	}
	out.Meta["before_hash"], out.Meta["after_hash"], out.Meta["merged"] = m.Now.Hash, after.Hash, m.Merged()
	switch {
	case !m.Exists:
		out.Text = "Created " + m.Path + remark
	case !m.Merged():
		out.Text = "Changed " + m.Path + remark
	default:
		out.Text = fmt.Sprintf("Changed %s. Someone else had changed it since you last read it; both changes are in it now.%s Theirs:\n%s", m.Path, remark, cut(m.Theirs(), maxShown))
	}
	return nil
}

// confirm proves that the run is still this worker's, by renewing its lease, and
// still wanted.
func (c *Context) confirm(ctx context.Context) error {
	if err := c.wanted(ctx); err != nil {
		return err
	}
	return c.handle.Heartbeat(ctx)
}
