// Package edit changes files of a directory that people, agents and programs change
// at the same time: no change is lost unseen, and every screen hears of each. It
// brings a sandbox together with the locks and the file records of a space, and
// needs no agent.
//
//	lock the path                  editors take turns; people do not ask
//	merge with what is there now   or report the conflict, with nothing applied
//	act                            whatever the caller records around it
//	replace, if it is still so     else merge again with what came in between
//	tell: file.changed             under the lock's fence
package edit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/lock"
)

// Options of [New]. Each may be nil.
type Options struct {
	// Dead reports whether an owner of a lock is dead, see lock.Options.
	Dead func(ctx context.Context, owner string) bool
	// Confirm is asked right before a file is replaced, see sandbox.EditOptions.
	Confirm func(ctx context.Context) error
}

// Editor makes the changes of one author. It is safe for concurrent use.
type Editor struct {
	Touched *Touched // with those that it was made from

	sb   *sandbox.Sandbox
	sp   *thole.Space
	o    Options
	seen views
}

// New returns an editor that has seen no file yet. What it does is done through sp.
func New(sb *sandbox.Sandbox, sp *thole.Space, o Options, touched *Touched) *Editor {
	if o.Confirm == nil {
		o.Confirm = func(context.Context) error { return nil }
	}
	return &Editor{Touched: touched, sb: sb, sp: sp, o: o}
}

// Read reads a file, which is then what the author's next change of it starts from.
// Errors: those of sandbox.ReadFile.
func (e *Editor) Read(path string) (sandbox.View, error) {
	content, hash, err := e.sb.ReadFile(path)
	if err != nil {
		return sandbox.View{}, err
	}
	v := sandbox.View{Hash: hash, Content: string(content)}
	e.Touched.add(path, false)
	e.seen.Store(path, v)
	return v, nil
}

// State is what became of the attempt to put a change in place.
type State int

// The states.
const (
	Placed  State = iota // it is in the file, and everyone was told
	Never                // it is not, and nothing was done
	Unknown              // nobody can tell
	Untold               // it is in the file, and whoever has the lock now tells of it
)

// Change is how a change of a file is made.
type Change struct {
	Owner  string // of the lock
	Path   string // clean, see sandbox.Clean
	Make   sandbox.Change
	Create bool // there need not be a file; one that is there must have been seen
	// Act, if set, is called to put the merged change in place, which it must do by
	// calling place, once.
	Act func(ctx context.Context, m *sandbox.Merge, place func() (State, error)) error
}

// maxTries is how often a change is merged with what others do at the very same
// moment before it is given up.
const maxTries = 8

// Change makes a change to a file, based on what the author last saw of it, and
// returns what it came to in words for the author, and in facts. One that cannot
// be applied because of what others did is reported as file.conflict, and kept as a
// blob: thole.ErrConflict. Errors: those of sandbox.Merge and Apply, of c.Act, of
// the store.
func (e *Editor) Change(ctx context.Context, c Change) (text string, facts map[string]any, err error) {
	facts = map[string]any{"file_path": c.Path}
	err = lock.In(e.sp).Do(ctx, c.Path, &lock.Options{Owner: c.Owner, Wait: -1, Dead: e.o.Dead}, func(ctx context.Context, sp *thole.Space) error {
		for try := 1; ; try++ {
			m, err := e.sb.Merge(c.Path, e.lastSeen(ctx, c.Path, c.Create), c.Make, c.Create)
			if err != nil {
				return err
			}
			if len(m.Conflicts) > 0 || m.Refused != nil {
				text, err = e.conflict(ctx, sp, m, facts)
				return err
			}
			if m.Exists && m.Final == m.Now.Content {
				e.seen.Store(c.Path, m.Now)
				text = c.Path + " has this content already; nothing was changed."
				return nil
			}
			if err := file.In(sp).Look(ctx, c.Path, m.Now.Hash); err != nil {
				return err
			}
			var remark error
			place := func() (state State, err error) {
				state, remark, err = e.place(ctx, sp, m)
				return state, err
			}
			if c.Act == nil {
				_, err = place()
			} else {
				err = c.Act(ctx, m, place)
			}
			if err != nil {
				return err
			}
			if m.Refused == nil {
				text = m.Applied(remark)
				facts["before_hash"], facts["after_hash"], facts["merged"] = m.Now.Hash, sandbox.Hash([]byte(m.Final)), m.Merged()
				return nil
			}
			var changed *sandbox.ChangedError
			if !errors.As(m.Refused, &changed) || changed.Kept != "" || try == maxTries {
				text, err = e.conflict(ctx, sp, m, facts)
				return err
			}
		}
	})
	return text, facts, err
}

// place puts a merged change in place and tells of it. What others did that kept it
// from being applied is then m.Refused, and no error; remark is what the author must
// know of one that is in place.
func (e *Editor) place(ctx context.Context, sp *thole.Space, m *sandbox.Merge) (_ State, remark, _ error) {
	after := sandbox.View{Hash: sandbox.Hash([]byte(m.Final)), Content: m.Final}
	var stale error // why this author must not act any more
	err := m.Apply(&sandbox.EditOptions{Confirm: func() error { stale = e.o.Confirm(ctx); return stale }})
	if stale != nil {
		return Never, nil, stale
	}
	if err != nil {
		// An error does not tell whether the new content is in place. The file does.
		state, _, lookErr := Look(e.sb, m.Path, m.Now.Hash, after.Hash)
		others := errors.As(err, new(*sandbox.ChangedError)) || errors.Is(err, sandbox.ErrBusy)
		switch {
		case state == Placed:
			remark = err
		case others:
			m.Refused = err
			return Never, nil, nil
		case state == Never:
			return Never, nil, err
		default:
			return Unknown, nil, fmt.Errorf("whether %s has the change is unknown: %w", m.Path, errors.Join(err, lookErr))
		}
	}
	e.Touched.add(m.Path, true)
	e.seen.Store(m.Path, after)
	if err = e.tell(ctx, sp, m, after); err != nil {
		err = fmt.Errorf("%s has the change, but not all of it could be recorded: %w", m.Path, err)
	}
	if errors.Is(err, thole.ErrFenced) {
		return Untold, remark, err
	}
	return Placed, remark, err
}

// Look reads from a file whether a change of it took place, by the hashes before and
// after it ("": no file), and returns the hash of what is there. It waits for an
// edit that is under way.
func Look(sb *sandbox.Sandbox, path, before, after string) (state State, hash string, err error) {
	_, hash, err = sb.ReadSettled(path)
	missing := errors.Is(err, thole.ErrNotFound)
	switch {
	case err != nil && !missing:
		return Unknown, "", err
	case !missing && hash == after:
		return Placed, hash, nil
	case missing && before == "", !missing && hash == before:
		return Never, hash, nil
	}
	return Unknown, hash, nil
}

// lastSeen returns what a change of a file starts from: what the author last saw of
// it or else, for a file that must be there, the content on record, which the author
// may know from earlier; nil if there is none.
func (e *Editor) lastSeen(ctx context.Context, path string, create bool) *sandbox.View {
	if seen, ok := e.seen.Load(path); ok {
		return &seen
	}
	if content, hash, ok := file.In(e.sp).Content(ctx, path, sandbox.MaxFileBytes); ok && !create {
		return &sandbox.View{Hash: hash, Content: string(content)}
	}
	return nil
}

// tell tells that the author made after out of what was there, and keeps both. It
// does so even when ctx has ended: it has happened.
func (e *Editor) tell(ctx context.Context, sp *thole.Space, m *sandbox.Merge, after sandbox.View) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	_, err := file.In(sp).Changed(ctx, m.Path, m.Now.Hash, after.Hash,
		&file.Contents{Before: []byte(m.Now.Content), After: []byte(after.Content)})
	if errors.As(err, new(*file.StaleError)) { // the record was behind: reality is right
		_, err = file.In(sp).Found(ctx, m.Path, after.Hash)
	}
	return err
}

// maxRejected bounds what a conflict event says was not applied, in bytes.
const maxRejected = 400 << 10

// conflict reports a change that was not applied: to its author, and as
// file.conflict to all others. What the author wanted is kept as a blob.
func (e *Editor) conflict(ctx context.Context, sp *thole.Space, m *sandbox.Merge, facts map[string]any) (text string, err error) {
	text, facts["conflicts"] = m.Report(), len(m.Conflicts)
	if !m.Exists {
		e.seen.Delete(m.Path)
	}
	if _, err := sp.PutBlob(ctx, bytes.NewReader([]byte(m.Wanted)), nil); err != nil {
		return text, err
	}
	if err := file.In(sp).Look(ctx, m.Path, m.Now.Hash); err != nil {
		return text, err
	}
	raw, err := json.Marshal(m.Rejected())
	if err != nil {
		return text, err
	}
	if len(raw) > maxRejected { // the blobs have it all
		raw = nil
	}
	ours := sandbox.Hash([]byte(m.Wanted))
	if err := file.In(sp).Conflict(ctx, file.Conflict{Path: m.Path, Base: m.Base.Hash, Ours: ours, Theirs: m.Now.Hash, Rejected: raw}); err != nil {
		return text, err
	}
	facts["base_hash"], facts["ours_hash"], facts["theirs_hash"] = m.Base.Hash, ours, m.Now.Hash
	return text, fmt.Errorf("%w: nothing of your change to %s was applied", thole.ErrConflict, m.Path)
}

// LookAround compares the files that were touched with what is on record. What
// changed is told as done by actor, or by a person for "". A file that is being
// edited is left to its editor.
func (e *Editor) LookAround(ctx context.Context, owner, actor string) error {
	for _, path := range e.Touched.Files() {
		err := lock.In(e.sp).Do(ctx, path, &lock.Options{Owner: owner}, func(ctx context.Context, sp *thole.Space) error {
			_, hash, err := e.sb.ReadFile(path)
			if err != nil && !errors.Is(err, thole.ErrNotFound) {
				return nil // not a file any more: nothing that a record could say
			}
			if actor == "" {
				return file.In(sp).Look(ctx, path, hash)
			}
			known, err := file.In(sp).Get(ctx, path)
			if err == nil && known.Known && known.Hash != hash {
				e.Touched.add(path, true)
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
