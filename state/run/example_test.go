package run_test

import (
	"context"
	"fmt"
	"log"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

func ExampleRuns_Do() {
	ctx := context.Background()
	store, err := thole.Open(ctx, memstore.New(), &thole.Options{Concepts: []*thole.Concept{run.Concept}})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	sp := store.Space("project:shop").As("user:42")

	talk, err := thread.In(sp).Create(ctx, &thread.CreateOptions{Title: "A button"})
	if err != nil {
		log.Fatal(err)
	}
	err = run.In(sp, nil).Do(ctx, talk.ID, run.Request{Prompt: "Make it blue"}, func(ctx context.Context, h *run.Handle) error {
		call, err := h.StartTool(ctx, "Edit", []byte(`{"path":"button.css"}`), "")
		if err != nil {
			return err // such as: the run was cancelled
		}
		if err := h.FinishTool(ctx, call, thread.ToolResult{Result: []byte(`"1 line changed"`)}); err != nil {
			return err
		}
		return h.Text(ctx, "It is blue now.")
	})
	if err != nil {
		log.Fatal(err)
	}
	page, err := thread.In(sp).Messages(ctx, talk.ID, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range page.Items {
		for _, b := range m.Blocks {
			if b.Tool != nil {
				fmt.Println(m.Role, b.Type, b.Tool.Name, string(b.Tool.Input), "→", string(b.Tool.Result))
				continue
			}
			fmt.Println(m.Role, b.Type, b.Content)
		}
	}
	// Output:
	// user text Make it blue
	// assistant tool Edit {"path":"button.css"} → "1 line changed"
	// assistant text It is blue now.
}
