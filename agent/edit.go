package agent

import (
	"fmt"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/merge3"
)

// change makes the content that an agent wants out of the one it last saw.
type change func(base string) (string, error)

// replaceString returns the change of an Edit: old becomes new, at its only
// place or, with all, everywhere.
func replaceString(old, new string, all bool) change {
	return func(base string) (string, error) {
		n := strings.Count(base, old)
		switch {
		case old == new:
			return "", fmt.Errorf("%w: old_string and new_string are the same", thole.ErrInvalid)
		case n == 0:
			return "", fmt.Errorf("%w: old_string is not in the file; it must match exactly, white space included", thole.ErrInvalid)
		case n > 1 && !all:
			return "", fmt.Errorf("%w: old_string is in the file %d times; give more of the text around it, or set replace_all", thole.ErrInvalid, n)
		}
		return strings.ReplaceAll(base, old, new), nil
	}
}

// merged brings a change of base onto current. A conflict returns what of both
// sides stands against each other; nothing of the change is then applied.
func merged(base, wanted, current string) (string, []merge3.Conflict, error) {
	if base == current {
		return wanted, nil, nil
	}
	res, err := merge3.Merge(base, wanted, current)
	if err != nil {
		return "", nil, err
	}
	if len(res.Conflicts) > 0 {
		return "", res.Conflicts, nil
	}
	return res.Text, nil, nil
}

// conflictText tells the model exactly what was not applied.
func conflictText(path string, p *prepared) string {
	var b strings.Builder
	if p.refused != nil {
		fmt.Fprintf(&b, "CONFLICT: nothing of your change to %s was applied: %v.\n", path, p.refused)
	} else {
		fmt.Fprintf(&b, "CONFLICT: %s was changed by someone else since you last read it, in the same place as your change. "+
			"Nothing of your change was applied; the file has the other version. Read it again, then edit it anew.\n", path)
	}
	for i, c := range p.conflicts {
		fmt.Fprintf(&b, "\nConflict %d of %d\n<<<<<<< yours, not applied (line %d)\n%s=======\n%s>>>>>>> in the file (line %d)\n",
			i+1, len(p.conflicts), c.Ours.Line, lines(c.Ours.Text), lines(c.Theirs.Text), c.Theirs.Line)
	}
	if diff := p.diff(); diff != "" {
		fmt.Fprintf(&b, "\nYour whole change, not applied:\n%s", diff)
	}
	return b.String()
}

func lines(s string) string {
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return s
}
