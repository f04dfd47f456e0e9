package history

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/thole-dev/thole/state/thread"
)

func TestHistoryShowsToolCallsWithInputsAndResults(t *testing.T) {
	turns := []*thread.Turn{{
		Status:  thread.Done,
		Request: []thread.Block{thread.TextBlock("Create a button")},
		Response: []thread.Block{
			thread.TextBlock("On it."),
			{Type: thread.ToolUse, Status: thread.Done, Tool: &thread.Tool{
				Name: "Write", Input: json.RawMessage(`{ "file_path": "src/Button.js" }`), Result: json.RawMessage(`"Created\nit\n\n=== Current Task List ===\n⏳ [1] x (low priority)\n"`),
			}},
			{Type: thread.ToolUse, Status: thread.Error, Tool: &thread.Tool{Name: "Bash", Result: json.RawMessage(`{"no":"text"}`)}},
			thread.TextBlock("Done."),
		},
	}, {
		Status:  thread.Interrupted,
		Request: []thread.Block{thread.TextBlock("Run it")},
		Response: []thread.Block{
			{Type: thread.ToolUse, Status: thread.Interrupted, Tool: &thread.Tool{Name: "Bash", Input: json.RawMessage(`{"command":"make"}`)}},
		},
	}}
	want := []string{
		"Create a button",
		"On it.\n\nDone.\n\nTools called:\n" +
			`- Write: {"file_path":"src/Button.js"} → Created\nit` + "\n" +
			`- Bash:  → [error] {"no":"text"}`,
		"Run it",
		"[interrupted: this answer was not finished]\n\nTools called:\n" +
			`- Bash: {"command":"make"} → [interrupted: it did not end, whether it had its effect is not known]`,
	}
	got := Of(turns)
	if len(got) != len(want) {
		t.Fatalf("%d messages, want %d", len(got), len(want))
	}
	for i := range want {
		if text := got[i].Render(CutResults); text != want[i] {
			t.Errorf("message %d:\n got %q\nwant %q", i, text, want[i])
		}
	}
}

func TestTheDefaultFilterCutsResultsAt2kB(t *testing.T) {
	c, ok := CutResults(ToolCall{Name: "Read", Result: strings.Repeat("é", 5000)})
	if !ok || len(c.Result) > 2<<10 || len(c.Result) < 2<<10-4 || !strings.HasSuffix(c.Result, "é…") {
		t.Errorf("result of %d bytes, %v; want just under 2 kB of whole characters", len(c.Result), ok)
	}
	m := Message{Content: "Hello", Tools: []ToolCall{{Name: "Read"}}}
	if got := m.Render(func(ToolCall) (ToolCall, bool) { return ToolCall{}, false }); got != "Hello" {
		t.Errorf("without tools: %q, want only the text", got)
	}
}
