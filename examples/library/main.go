package main

import (
	"context"
	"fmt"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/state/all"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

func main() {
	ctx := context.Background()
	store := must(thole.Open(ctx, must(sqlitestore.Open(ctx, "agent.db", nil)), &thole.Options{Concepts: all.Concepts()}))
	defer store.Close()
	for _, m := range talk(ctx, store) {
		fmt.Println(m.Role+":", m.Blocks[0].Content)
	}
}

func talk(ctx context.Context, store *thole.Store) []*thread.Message {
	shop := store.Space("project:shop").As("user:42")
	chat := must(thread.In(shop).Create(ctx, nil))

	// Each thread has one active run: with a lease, fenced, cancelled through ctx,
	// ended once.
	ask := run.Request{Prompt: "Create a button", Agent: "coder"}
	must(0, run.In(shop, nil).Do(ctx, chat.ID, ask, func(ctx context.Context, h *run.Handle) error {
		return h.Text(ctx, "Done: src/Button.js") // your model and tools go here
	}))
	return must(thread.In(shop).Messages(ctx, chat.ID, nil)).Items
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
