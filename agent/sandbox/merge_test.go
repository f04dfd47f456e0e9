package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnEditNeedsItsTextOnceOrAll(t *testing.T) {
	for _, c := range []struct {
		old, new string
		all      bool
		want     string
		fails    string
	}{
		{old: "b", new: "B", want: "a B a\n"},
		{old: "a", new: "A", all: true, want: "A b A\n"},
		{old: "a", new: "A", fails: "2 times"},
		{old: "x", new: "y", fails: "not in the file"},
		{old: "b", new: "b", fails: "the same"},
	} {
		got, err := Substitute(c.old, c.new, c.all)("a b a\n")
		if c.fails == "" && (err != nil || got != c.want) || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%q → %q: %q, %v; want %q %q", c.old, c.new, got, err, c.want, c.fails)
		}
	}
}

func TestAConflictTellsBothVersionsExactly(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("1\nzwei\n3\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	base := "1\n2\n3\n"
	m, err := s.Merge("a.txt", &View{Hash([]byte(base)), base}, Substitute("2", "two", false), false)
	if err != nil || len(m.Conflicts) != 1 {
		t.Fatalf("%+v, %v; want one conflict", m, err)
	}
	text := m.Report()
	for _, want := range []string{"CONFLICT: a.txt", "not applied (line 2)\ntwo\n=======\nzwei\n>>>>>>>", "-2\n+two\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the report:\n%s", want, text)
		}
	}
}
