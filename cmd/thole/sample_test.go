package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/examples"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/internal/servertest"
)

// button is the component after the sample's turns.
const button = `import { h } from '../dom.js'

export function Button({ label, onClick = () => {} }) {
  return h('button', {
    type: 'button',
    onClick,
    class: 'button',
    style: 'background: royalblue; color: white',
  }, label)
}
`

// The program itself plays the sample's turns on each kind of store. The events must be
// the same.
func TestDevPlaysTheSampleOnEveryStore(t *testing.T) {
	effort.Program(t, "curl") // for turns.sh
	sqlite := func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "thole.db") }
	postgres := func(t *testing.T) string {
		effort.SlowUnderRace(t)
		return pgtest.Start(t).Database(t)
	}
	over := func(dsn func(*testing.T) string) func(*testing.T) string {
		return func(t *testing.T) string { return servertest.Start(t, servertest.Setup{Store: dsn(t)}).URL }
	}
	stores := []struct {
		name string
		dsn  func(t *testing.T) string
	}{
		{"mem", func(*testing.T) string { return "mem:" }},
		{"sqlite", sqlite},
		{"file", func(t *testing.T) string { return "file:" + filepath.Join(t.TempDir(), "store") }},
		{"remote", over(sqlite)},
		{"postgres", postgres},
		{"pgbouncer", func(t *testing.T) string { return pgtest.Start(t).Pooled(t, postgres(t)) }},
		{"remote-postgres", over(postgres)},
	}
	events := make([][]string, len(stores))
	t.Cleanup(func() {
		var row []string
		for i, on := range stores {
			row = append(row, fmt.Sprintf("%s %d", on.name, len(events[i])))
			if events[i] != nil && events[0] != nil && !slices.Equal(events[i], events[0]) {
				t.Errorf("events on %s: got %v, want those on mem: %v", on.name, events[i], events[0])
			}
		}
		fmt.Println("matrix: examples/button, events:", strings.Join(row, ", "))
	})
	for i, on := range stores {
		t.Run(on.name, func(t *testing.T) {
			t.Parallel()
			events[i] = playSample(t, on.dsn(t))
		})
	}
}

// playSample plays the sample's turns on a store, without the script's delays, and
// returns the types of all events except live text, sorted.
func playSample(t *testing.T, store string) (types []string) {
	t.Helper()
	script, err := os.ReadFile("../../examples/script.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t, servertest.Setup{Store: store, Script: strings.Replace(string(script), "delay_ms: 15\n", "", 1)})
	if laid, err := examples.LayOut(s.Project); err != nil || !laid {
		t.Fatalf("lay out the sample: %v, %v", laid, err)
	}
	const space = "project:sample"
	out, err := exec.CommandContext(t.Context(), "../../examples/turns.sh", s.URL, space).CombinedOutput()
	if n := strings.Count(string(out), "\n  complete: succeeded\n"); err != nil || n != 3 {
		t.Fatalf("turns.sh: %v, %d turns succeeded\n%s\n%s", err, n, out, s.LogTail())
	}
	for file, want := range map[string]string{
		"src/components/Button.js": button,
		"src/App.js":               "    Button({ label: 'Press me', onClick: () => alert('Pressed') }),\n",
	} {
		if got, err := os.ReadFile(filepath.Join(s.Project, file)); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %v, got %s, want %s in it", file, err, got, want)
		}
	}
	for _, e := range s.Events(space) {
		if e.Type != "message.delta" { // their number depends on the time
			types = append(types, e.Type)
		}
	}
	slices.Sort(types)
	return types
}
