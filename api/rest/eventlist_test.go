package rest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
)

// The tables of docs/events.md are between these lines.
const (
	tablesBegin = "<!-- made by: go test ./api/rest -run TestTheListOfEventsIsCurrent -update -->\n"
	tablesEnd   = "<!-- end -->\n"
)

func TestTheListOfEventsIsCurrent(t *testing.T) {
	cs, err := thole.NewConcepts(rest.Concepts()...)
	if err != nil {
		t.Fatal(err)
	}
	const path = "../../docs/events.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, below, begun := strings.Cut(string(text), tablesBegin)
	_, after, ended := strings.Cut(below, tablesEnd)
	if !begun || !ended {
		t.Fatalf("%s lacks %q or %q", path, tablesBegin, tablesEnd)
	}
	want := before + tablesBegin + rest.EventTables(cs) + tablesEnd + after
	switch {
	case want == string(text):
	case *update:
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is stale: make it anew with `go test ./api/rest -run TestTheListOfEventsIsCurrent -update`", path)
	}
}
