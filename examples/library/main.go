package main

import (
	"context"
	"fmt"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

func main() {
	ctx := context.Background()
	store := must(thole.Open(ctx, must(sqlitestore.Open(ctx, "agent.db", nil)), nil))
	defer store.Close()
	shop := store.Space("project:shop").As("user:42")
	chat := must(thread.In(shop).Create(ctx, nil))

	// One run at a time per thread: leased, fenced, cancelled through ctx, ended once.
	ask := run.Request{Prompt: "Create a button", Agent: "coder"}
	must(0, run.In(shop, nil).Do(ctx, chat.ID, ask, func(ctx context.Context, h *run.Handle) error {
		return h.Text(ctx, "Done: src/Button.js") // your model and tools go here
	}))
	for _, m := range must(thread.In(shop).Messages(ctx, chat.ID, nil)).Items {
		fmt.Println(m.Role+":", m.Blocks[0].Content)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
