package agent

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

const poem = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"

// readAndEdit reads poem.txt and then replaces a line.
func readAndEdit(prompt, old, new string) string {
	return `
  - prompt: ` + prompt + `
    steps:
      - tool_calls: [{name: Read, input: {file_path: poem.txt}}]
      - tool_calls: [{name: Edit, input: {file_path: poem.txt, old_string: ` + old + `, new_string: ` + new + `}}]
      - text: Done.
`
}

// before calls f before the first call of the named tool.
func before(tool string, f func()) func(*Options) {
	var once sync.Once
	return func(o *Options) {
		o.Hooks.BeforeTool = func(_ context.Context, _ *Context, call *Call) error {
			if call.Name == tool {
				once.Do(f)
			}
			return nil
		}
	}
}

func TestAnEditOfAFileThatAPersonChangedIsMerged(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		e.write("poem.txt", poem)
		theirs := strings.Replace(poem, "seven", "SEVEN", 1)
		a := e.agent("turns:"+readAndEdit("Edit it", "one", "ONE"), before("Edit", func() { e.write("poem.txt", theirs) }))
		e.ask(a, "Edit it", run.Succeeded)
		want := strings.Replace(theirs, "one", "ONE", 1)
		if got := e.file("poem.txt"); got != want {
			t.Errorf("poem.txt = %q, want both changes: %q", got, want)
		}
		tools := e.last(thread.ToolUse)
		wantContains(t, "the result", result(t, tools[1]), "-seven\n+SEVEN\n")
		var change struct {
			Path   string `json:"path"`
			Before string `json:"before_hash"`
			After  string `json:"after_hash"`
		}
		events := e.events("file.changed")
		if err := events[len(events)-1].As(&change); err != nil {
			t.Fatal(err)
		}
		if change.Path != "poem.txt" || change.Before != sandbox.Hash([]byte(theirs)) || change.After != sandbox.Hash([]byte(want)) {
			t.Errorf("file.changed %+v, want the hashes before and after", change)
		}
		if done := e.events("file.done"); len(done) != 1 {
			t.Errorf("%d file.done events, want one", len(done))
		}
	})
}

func TestAConflictIsReportedAndLosesNothing(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		e.write("poem.txt", poem)
		theirs := strings.Replace(poem, "four", "quatre", 1)
		a := e.agent("turns:"+readAndEdit("Edit it", "four", "vier"), before("Edit", func() { e.write("poem.txt", theirs) }))
		e.ask(a, "Edit it", run.Succeeded)
		if got := e.file("poem.txt"); got != theirs {
			t.Errorf("poem.txt = %q, want the person's version %q", got, theirs)
		}
		edit := e.last(thread.ToolUse)[1]
		if edit.Status != thread.Error {
			t.Errorf("the tool's status is %s, want error", edit.Status)
		}
		wantContains(t, "the result", result(t, edit), "not applied (line 4)\nvier\n=======\nquatre\n")
		wantContains(t, "the result", result(t, edit), "-four\n+vier\n")
		events := e.events("file.conflict", "file.changed")
		if len(events) != 1 || events[0].Type != "file.conflict" {
			t.Fatalf("events %v, want one file.conflict", events)
		}
		wantContains(t, "the event", string(events[0].Data), `vier`)
		wantContains(t, "the event", string(events[0].Data), `quatre`)
	})
}

func TestWhatOthersKeepFromBeingAppliedIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		interfere func(path string) (undo func(), err error)
		says      string
		diff      bool
	}{
		"removed": {func(path string) (func(), error) { return nil, os.Remove(path) }, "removed by someone else", true},
		"no text": {func(path string) (func(), error) { return nil, os.WriteFile(path, []byte("\x00\x01"), 0o666) }, "no text", false},
		"busy": {func(path string) (func(), error) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			return func() { f.Close() }, err
		}, "open for writing", true},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "busy" && runtime.GOOS != "linux" {
				t.Skip("only Linux tells who has a file open")
			}
			each(t, func(t *testing.T, e *env) {
				e.write("poem.txt", poem)
				a := e.agent("turns:"+readAndEdit("Edit it", "four", "vier"), before("Edit", func() {
					undo, err := c.interfere(filepath.Join(e.dir, "poem.txt"))
					if err != nil {
						t.Error(err)
					} else if undo != nil {
						t.Cleanup(undo)
					}
				}))
				e.ask(a, "Edit it", run.Succeeded)
				edit := e.last(thread.ToolUse)[1]
				events := e.events("file.conflict")
				if edit.Status != thread.Error || len(events) != 1 {
					t.Fatalf("the tool's status is %s, the events are %v; want error and one file.conflict", edit.Status, events)
				}
				wantContains(t, "the result", result(t, edit), "nothing of your change to poem.txt was applied")
				wantContains(t, "the result", result(t, edit), c.says)
				wantContains(t, "the event", string(events[0].Data), c.says)
				if c.diff {
					wantContains(t, "the result", result(t, edit), "-four\n+vier\n")
					wantContains(t, "the event", string(events[0].Data), `-four\n+vier\n`)
				}
			})
		})
	}
}

func TestAPersonsEditBetweenCheckAndRenameIsKept(t *testing.T) {
	statetest.Each(t, func(t *testing.T, s *statetest.Env) {
		var e *env
		var once sync.Once
		theirs := strings.Replace(poem, "seven", "SEVEN", 1)
		e = newEnv(t, s, &sandbox.Options{BeforeRename: func(path string) {
			once.Do(func() {
				if err := os.WriteFile(filepath.Join(e.dir, path), []byte(theirs), 0o666); err != nil {
					t.Error(err)
				}
			})
		}})
		e.write("poem.txt", poem)
		a := e.agent("turns:"+readAndEdit("Edit it", "one", "ONE"), nil)
		e.ask(a, "Edit it", run.Succeeded)
		if got, want := e.file("poem.txt"), strings.Replace(theirs, "one", "ONE", 1); got != want {
			t.Errorf("poem.txt = %q, want both changes: %q", got, want)
		}
		page, err := decision.In(e.sp).List(t.Context(), nil)
		if err != nil || len(page.Items) != 2 || page.Items[0].Status != decision.Failed || page.Items[1].Status != decision.Done {
			t.Errorf("decisions %+v, %v; want the first try failed, the second done", page.Items, err)
		}
	})
}

func TestTwoAgentsEditOneFileAtOnce(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		e.write("poem.txt", poem)
		var both sync.WaitGroup
		both.Add(2)
		a := e.agent("turns:"+readAndEdit("Edit the first", "one", "ONE")+readAndEdit("Edit the last", "seven", "SEVEN"), func(o *Options) {
			o.Hooks.BeforeTool = func(_ context.Context, _ *Context, call *Call) error {
				if call.Name == "Edit" { // both have read the same
					both.Done()
					both.Wait()
				}
				return nil
			}
		})
		other, err := thread.In(e.sp).Create(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for id, prompt := range map[string]string{e.thread: "Edit the first", other.ID: "Edit the last"} {
			wg.Go(func() {
				if _, err := a.Run(t.Context(), e.sp, id, Request{Prompt: prompt}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got, want := e.file("poem.txt"), "ONE\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n"; got != want {
			t.Errorf("poem.txt = %q, want both changes: %q", got, want)
		}
	})
}

func TestADecisionIsDurableBeforeItsEffect(t *testing.T) {
	statetest.Each(t, func(t *testing.T, s *statetest.Env) {
		var e *env
		planned := false
		e = newEnv(t, s, &sandbox.Options{BeforeRename: func(path string) {
			page, err := decision.In(e.sp).List(context.Background(), &decision.ListOptions{Incomplete: true})
			planned = err == nil && len(page.Items) == 1 && page.Items[0].Action == "Edit poem.txt"
		}})
		e.write("poem.txt", poem)
		e.ask(e.agent("turns:"+readAndEdit("Edit it", "one", "ONE"), nil), "Edit it", run.Succeeded)
		if !planned {
			t.Error("no decision was planned when the file was replaced")
		}
		var got []string
		for _, ev := range e.events("tool.*", "lock.*", "decision.*", "file.changed") {
			got = append(got, ev.Type)
		}
		want := []string{
			"tool.started", "tool.completed", // Read
			"tool.started", "lock.acquired", "decision.planned", "file.changed", "decision.resolved", "lock.released", "tool.completed",
		}
		if !slices.Equal(got, want) {
			t.Errorf("events\n got %v\nwant %v", got, want)
		}
	})
}

func TestWriteDoesNotOverwriteWhatWasNotRead(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		e.write("poem.txt", poem)
		a := e.agent(`turns:
  - prompt: Write it
    steps:
      - tool_calls: [{name: Write, input: {file_path: poem.txt, content: mine}}]
      - text: Done.
`, nil)
		e.ask(a, "Write it", run.Succeeded)
		if got := e.file("poem.txt"); got != poem {
			t.Errorf("poem.txt = %q, want what was there", got)
		}
		wantContains(t, "the result", result(t, e.last(thread.ToolUse)[0]), "read it first")
	})
}

func TestLocksAreReleasedWhenAnEditFails(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		e.write("poem.txt", poem)
		e.ask(e.agent("turns:"+readAndEdit("Edit it", "eight", "EIGHT"), nil), "Edit it", run.Succeeded)
		wantContains(t, "the result", result(t, e.last(thread.ToolUse)[1]), "old_string is not in the file")
		if a, r := e.events("lock.acquired"), e.events("lock.released"); len(a) != 1 || len(r) != 1 {
			t.Errorf("%d acquired, %d released; want one each", len(a), len(r))
		}
	})
}
