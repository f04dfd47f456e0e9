package merge3

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEditsApartAreBothKept(t *testing.T) {
	tests := []struct{ name, base, ours, theirs, want string }{
		{"replace and append", "a\nb\nc\nd\n", "a\nB\nc\nd\n", "a\nb\nc\nd\ne\n", "a\nB\nc\nd\ne\n"},
		{"delete and insert", "a\nb\nc\nd\n", "b\nc\nd\n", "a\nb\nc\nx\nd\n", "b\nc\nx\nd\n"},
		{"same change twice", "a\nb\nc\n", "a\nX\nc\n", "a\nX\nc\n", "a\nX\nc\n"},
		{"same and another", "a\nb\nc\nd\ne\n", "X\nb\nc\nd\nY\n", "X\nb\nc\nd\ne\n", "X\nb\nc\nd\nY\n"},
		{"line ends stay", "a\r\nb\r\nc\r\nd\r\n", "A\r\nb\r\nc\r\nd\r\n", "a\r\nb\r\nc\r\nD\r\n", "A\r\nb\r\nc\r\nD\r\n"},
		{"no final newline", "a\nb\nc", "A\nb\nc", "a\nb\nc", "A\nb\nc"},
		{"final newline removed", "a\nb\nc\nd\n", "A\nb\nc\nd\n", "a\nb\nc\nd", "A\nb\nc\nd"},
		{"from nothing", "", "", "a\n", "a\n"},
		{"to nothing", "a\nb\n", "", "a\nb\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Merge(tt.base, tt.ours, tt.theirs)
			if err != nil || len(got.Conflicts) != 0 {
				t.Fatalf("Merge: conflicts %+v, error %v, want none", got.Conflicts, err)
			}
			if got.Text != tt.want {
				t.Errorf("Merge = %q, want %q", got.Text, tt.want)
			}
		})
	}
}

func TestAConflictSaysWhatWasNotApplied(t *testing.T) {
	got, err := Merge("a\nb\nc\nd\ne\n", "0\na\nB1\nc\nd\nE\n", "a\nB2\nB3\nc\nd\ne\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := "0\na\nB2\nB3\nc\nd\nE\n"; got.Text != want {
		t.Errorf("Text = %q, want %q", got.Text, want)
	}
	want := Conflict{Base: Part{2, 1, "b\n"}, Ours: Part{3, 1, "B1\n"}, Theirs: Part{2, 2, "B2\nB3\n"}}
	if len(got.Conflicts) != 1 || got.Conflicts[0] != want {
		t.Errorf("Conflicts = %+v, want one: %+v", got.Conflicts, want)
	}
}

func TestChangesThatTouchAreAConflict(t *testing.T) {
	for name, sides := range map[string][2]string{
		"neighbouring lines": {"A\nb\n", "a\nB\n"},
		"two insertions":     {"a\nx\nb\n", "a\ny\nb\n"},
		"delete and change":  {"b\n", "A\nb\n"},
		"both create":        {"a\nb\nx\n", "a\nb\ny\n"},
	} {
		got, err := Merge("a\nb\n", sides[0], sides[1])
		if err != nil || len(got.Conflicts) != 1 {
			t.Errorf("%s: conflicts %+v, error %v, want one conflict", name, got.Conflicts, err)
		}
	}
}

func TestBinaryIsRefused(t *testing.T) {
	for _, bad := range []string{"a\x00b", "\xff\xfe"} {
		for i := range 3 {
			in := [3]string{"a", "a", "a"}
			in[i] = bad
			if _, err := Merge(in[0], in[1], in[2]); !errors.Is(err, ErrBinary) {
				t.Errorf("Merge(%q) = %v, want ErrBinary", in, err)
			}
		}
	}
}

func TestUnifiedShowsTheChange(t *testing.T) {
	got := Unified("old", "new", "a\nb\n", "a\nc\n")
	if !strings.Contains(got, "-b\n+c\n") || !strings.HasPrefix(got, "--- old\n+++ new\n") {
		t.Errorf("Unified = %q", got)
	}
	if got := Unified("old", "new", "a\n", "a\n"); got != "" {
		t.Errorf("Unified of equal texts = %q, want empty", got)
	}
}

func FuzzMerge(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nB\nc\n", "a\nb\nC")
	f.Add("", "x", "y\r\n")
	f.Add("1\n2\n3\n4\n5\n", "1\n3\n4\n5\n6\n", "0\n1\n2\n3\n5\n")
	f.Add("a\na\na\n", "a\na\na\na\n", "a\nb\na\n")
	f.Fuzz(func(t *testing.T, base, ours, theirs string) {
		got, err := Merge(base, ours, theirs)
		if err != nil {
			return
		}
		same(t, "merge(b,b,x)", base, base, theirs, theirs)
		same(t, "merge(b,x,b)", base, ours, base, ours)
		same(t, "merge(b,x,x)", base, ours, ours, ours)

		for _, l := range split(theirs) { // theirs is what a person wrote
			if !hasLine(base, l) && !hasLine(got.Text, l) {
				t.Errorf("line %q of theirs is lost in %q", l, got.Text)
			}
		}
		for _, l := range split(ours) {
			kept := hasLine(base, l) || hasLine(got.Text, l)
			for _, c := range got.Conflicts {
				kept = kept || hasLine(c.Ours.Text, l)
			}
			if !kept {
				t.Errorf("line %q of ours is neither in %q nor in a conflict", l, got.Text)
			}
		}
		for _, c := range got.Conflicts {
			for _, p := range []struct {
				part Part
				of   string
			}{{c.Base, base}, {c.Ours, ours}, {c.Theirs, theirs}} {
				lines := split(p.of)
				if from := p.part.Line - 1; strings.Join(lines[from:from+p.part.Lines], "") != p.part.Text {
					t.Errorf("part %+v is not at its lines of %q", p.part, p.of)
				}
			}
		}
	})
}

func same(t *testing.T, what, base, ours, theirs, want string) {
	t.Helper()
	got, err := Merge(base, ours, theirs)
	if err != nil || len(got.Conflicts) > 0 || got.Text != want {
		t.Errorf("%s = %q, %d conflicts, %v; want %q", what, got.Text, len(got.Conflicts), err, want)
	}
}

func hasLine(text, line string) bool {
	for _, l := range split(text) {
		if l == line {
			return true
		}
	}
	return false
}
