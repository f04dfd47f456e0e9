package agent

import (
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
		got, err := replaceString(c.old, c.new, c.all)("a b a\n")
		if c.fails == "" && (err != nil || got != c.want) || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%q → %q: %q, %v; want %q %q", c.old, c.new, got, err, c.want, c.fails)
		}
	}
}

func TestAConflictTellsBothVersionsExactly(t *testing.T) {
	base, wanted, current := "1\n2\n3\n", "1\ntwo\n3\n", "1\nzwei\n3\n"
	_, conflicts, err := merged(base, wanted, current)
	if err != nil || len(conflicts) != 1 {
		t.Fatalf("%d conflicts, %v; want one", len(conflicts), err)
	}
	text := conflictText("a.txt", &prepared{base: view{content: base}, now: view{content: current}, wanted: wanted, conflicts: conflicts})
	for _, want := range []string{"CONFLICT: a.txt", "not applied (line 2)\ntwo\n=======\nzwei\n>>>>>>>", "-2\n+two\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the report:\n%s", want, text)
		}
	}
}
