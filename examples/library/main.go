package main

import (
	"context"
	"fmt"
	"log"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

func main() {
	if err := work(context.Background(), "agent.db"); err != nil {
		log.Fatal(err)
	}
}

func work(ctx context.Context, path string) error {
	file, err := sqlitestore.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	store, err := thole.Open(ctx, file, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	shop := store.Space("project:shop").As("user:42")
	chat, err := thread.In(shop).Create(ctx, nil)
	if err != nil {
		return err
	}
	// One run at a time per thread: leased, fenced, cancelled through ctx, finished once.
	ask := run.Request{Prompt: "Create a button", Agent: "coder"}
	err = run.In(shop, nil).Do(ctx, chat.ID, ask, func(ctx context.Context, h *run.Handle) error {
		return h.Text(ctx, "Done: src/Button.js") // your model and tools go here
	})
	if err != nil {
		return err
	}
	messages, err := thread.In(shop).Messages(ctx, chat.ID, nil)
	for _, m := range messages.Items {
		fmt.Println(m.Role+":", m.Blocks[0].Content)
	}
	return err
}
