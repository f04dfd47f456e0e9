package sandbox

import (
	"errors"
	"fmt"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/clip"
	"github.com/thole-dev/thole/internal/merge3"
)

// View is a file as someone last saw it, by reading or by writing it.
type View struct{ Hash, Content string }

// Change makes the content that its author wants out of the one they last saw.
type Change func(content string) (string, error)

// Whole is the change that replaces all content.
func Whole(content string) Change { return func(string) (string, error) { return content, nil } }

// Substitute is the change of old into new, at its only place or, with all,
// everywhere. It fails where old is not, or is more than once.
func Substitute(old, new string, all bool) Change {
	return func(content string) (string, error) {
		n := strings.Count(content, old)
		switch {
		case old == new:
			return "", fmt.Errorf("%w: old_string and new_string are the same", thole.ErrInvalid)
		case n == 0:
			return "", fmt.Errorf("%w: old_string is not in the file; it must match exactly, white space included", thole.ErrInvalid)
		case n > 1 && !all:
			return "", fmt.Errorf("%w: old_string is in the file %d times; give more of the text around it, or set replace_all", thole.ErrInvalid, n)
		}
		return strings.ReplaceAll(content, old, new), nil
	}
}

// Merge is a change, worked out against what is in the file. It can be applied if
// it has no Conflicts and is not Refused.
type Merge struct {
	Path      string
	Base      View // what the author last saw
	Now       View // what is there
	Exists    bool
	Wanted    string // Base with the change
	Final     string // Now with the change
	Conflicts []merge3.Conflict
	Refused   error // another reason, given by others, why it cannot be applied

	s *Sandbox
}

// Reasons for which a change is refused that others gave.
var (
	errRemoved = errors.New("it was removed by someone else since you last read it; to make it anew, write it again")
	errNoText  = errors.New("it was changed by someone else since you last read it, and is no text that could be merged")
)

// Merge works out what a change means for the file at a path. seen is what the
// change's author last saw of it; nil if they never did: then create allows a file
// that is not there, and refuses one that is, and without create the change is
// made of what is there. It changes nothing.
//
// Errors: those of ReadFile and of change; thole.ErrConflict with create.
func (s *Sandbox) Merge(path string, seen *View, change Change, create bool) (*Merge, error) {
	content, hash, err := s.ReadFile(path)
	missing := errors.Is(err, thole.ErrNotFound)
	if err != nil && !(missing && (create || seen != nil)) {
		return nil, err
	}
	m := &Merge{Path: path, Now: View{hash, string(content)}, Exists: !missing, s: s}
	switch {
	case seen != nil:
		m.Base = *seen
	case create && !missing:
		return nil, fmt.Errorf("%w: %s exists and you have not read it; read it first, so that nothing in it is lost", thole.ErrConflict, path)
	default:
		m.Base = m.Now
	}
	m.Wanted, err = change(m.Base.Content)
	if missing && seen != nil {
		m.Refused = errRemoved
		return m, err
	}
	if err != nil && m.Merged() {
		// The author may know the text from elsewhere: a command's output, or a
		// report of a conflict. What they ask for is what is there, then.
		m.Base = m.Now
		m.Wanted, err = change(m.Base.Content)
	}
	if err != nil || !m.Merged() {
		m.Final = m.Wanted
		return m, err
	}
	res, err := merge3.Merge(m.Base.Content, m.Wanted, m.Now.Content)
	if errors.Is(err, merge3.ErrBinary) {
		m.Refused, err = errNoText, nil
	}
	m.Final, m.Conflicts = res.Text, res.Conflicts
	return m, err
}

// Apply puts the merged content in place; see [Sandbox.Replace] and
// [Sandbox.Create] for how, and for the errors.
func (m *Merge) Apply(o *EditOptions) error {
	var err error
	if m.Exists {
		_, err = m.s.Replace(m.Path, m.Now.Hash, []byte(m.Final), o)
	} else {
		_, err = m.s.Create(m.Path, []byte(m.Final), o)
	}
	return err
}

// Merged reports whether somebody else changed the file since the author saw it.
func (m *Merge) Merged() bool { return m.Exists && m.Base.Hash != m.Now.Hash }

// Diff is the whole change, for people to read; empty if it is not of text.
func (m *Merge) Diff() string {
	if errors.Is(m.Refused, errNoText) {
		return ""
	}
	return merge3.Unified("last read", "yours", m.Base.Content, m.Wanted)
}

// maxTheirs bounds how much of what others changed Applied shows, in bytes.
const maxTheirs = 100 << 10

// Applied tells the author of a change what was done, and what else it made of the
// file; remark, if any, is what went wrong after it.
func (m *Merge) Applied(remark error) string {
	var more string
	if remark != nil {
		more = fmt.Sprintf("\n[the change is in place, but: %v]", remark)
	}
	switch {
	case !m.Exists:
		return "Created " + m.Path + more
	case !m.Merged():
		return "Changed " + m.Path + more
	}
	theirs := merge3.Unified("you read", "was there", m.Base.Content, m.Now.Content)
	return fmt.Sprintf("Changed %s. Someone else had changed it since you last read it; both changes are in it now.%s Theirs:\n%s", m.Path, more, clip.Text(theirs, maxTheirs))
}

// Rejected is a change that was not applied, for programs to read.
type Rejected struct {
	Conflicts []merge3.Conflict `json:"conflicts,omitempty"`
	Reason    string            `json:"reason,omitempty"` // another one than conflicts
	Diff      string            `json:"diff,omitempty"`   // the whole change, from what its author last saw
}

// Rejected returns what cannot be applied, and why.
func (m *Merge) Rejected() Rejected {
	r := Rejected{Conflicts: m.Conflicts, Diff: m.Diff()}
	if m.Refused != nil {
		r.Reason = m.Refused.Error()
	}
	return r
}

// Report tells the author of a change that cannot be applied exactly why, and
// what of it stands against what.
func (m *Merge) Report() string {
	var b strings.Builder
	if m.Refused != nil {
		fmt.Fprintf(&b, "CONFLICT: nothing of your change to %s was applied: %v.\n", m.Path, m.Refused)
	} else {
		fmt.Fprintf(&b, "CONFLICT: %s was changed by someone else since you last read it, in the same place as your change. "+
			"Nothing of your change was applied; the file has the other version. Read it again, then edit it anew.\n", m.Path)
	}
	for i, c := range m.Conflicts {
		fmt.Fprintf(&b, "\nConflict %d of %d\n<<<<<<< yours, not applied (line %d)\n%s=======\n%s>>>>>>> in the file (line %d)\n",
			i+1, len(m.Conflicts), c.Ours.Line, ended(c.Ours.Text), ended(c.Theirs.Text), c.Theirs.Line)
	}
	if diff := m.Diff(); diff != "" {
		fmt.Fprintf(&b, "\nYour whole change, not applied:\n%s", diff)
	}
	return b.String()
}

// ended is s with an end of line.
func ended(s string) string {
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return s
}
