package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/state/statetest"
)

func TestMain(m *testing.M) { statetest.Main(m) }

func TestTheProgramDoesTheSameOnEveryBackend(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		var got []string
		for _, m := range talk(t.Context(), e.Store) {
			got = append(got, m.Role+": "+m.Blocks[0].Content)
		}
		if want := []string{"user: Create a button", "assistant: Done: src/Button.js"}; !slices.Equal(got, want) {
			t.Errorf("messages: got %q, want %q", got, want)
		}
	})
}

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chdir(dir); err != nil {
		panic(err)
	}
	main()
	// Output:
	// user: Create a button
	// assistant: Done: src/Button.js
}

func TestREADMEShowsThisProgram(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```go\n"+string(program)+"```\n") {
		t.Error("README.md does not show examples/library/main.go as it is")
	}
}
