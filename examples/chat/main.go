// Command chat is the program of docs/guide.md: a page on which several people talk
// with an agent that streams, uses a tool, asks before it acts, and can be cancelled.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/state/all"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

func main() {
	ctx, stop := untilStopped()
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:8080")
	if err == nil {
		err = chat(ctx, l, "chat.db")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// untilStopped returns a context that ends when the program is asked to stop, by Ctrl-C or
// by a deploy.
func untilStopped() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

// chat serves the page on l until ctx ends, and stores everything in the file at path.
func chat(ctx context.Context, l net.Listener, path string) error {
	store, err := open(ctx, path)
	if err != nil {
		return err
	}
	defer store.Close()

	working, stop := context.WithCancel(ctx)
	defer stop()
	var worker sync.WaitGroup
	worker.Go(func() { work(working, store.Space("project:chat")) })
	defer worker.Wait()

	fmt.Println("listening on http://" + l.Addr().String())
	return serve(ctx, l, store)
}

func open(ctx context.Context, path string) (*thole.Store, error) {
	file, err := sqlitestore.Open(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	return thole.Open(ctx, file, &thole.Options{Concepts: all.Concepts()})
}

// talk is a conversation without a page: one question and its answer.
func talk(ctx context.Context, space *thole.Space, question string) ([]*thread.Message, error) {
	talk, err := thread.In(space).Create(ctx, &thread.CreateOptions{Title: "A first try"})
	if err != nil {
		return nil, err
	}
	err = run.In(space, nil).Do(ctx, talk.ID, run.Request{Prompt: question}, answer)
	if err != nil {
		return nil, err
	}
	page, err := thread.In(space).Messages(ctx, talk.ID, nil)
	return page.Items, err
}

// work answers in every thread of the space until ctx ends. The runs at work then have
// three seconds to end before they are cancelled, with the cause shutdown; those that wait
// for an answer, too.
func work(ctx context.Context, space *thole.Space) {
	group := &run.Group{}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		defer stop()
		ending, cancel := context.WithTimeout(working, 3*time.Second)
		defer cancel()
		group.Drain(ending)
	})
	runs := run.In(space, &run.Options{Group: group})
	_ = runs.Work(working, &run.WorkOptions{Name: "dealer", Workers: 100}, answer) // until stop
}

// answer is the agent. Yours would ask a model here.
func answer(ctx context.Context, h *run.Handle) error {
	switch question := text(h.Request()); {
	case strings.HasPrefix(question, "roll"):
		return roll(ctx, h)
	case strings.HasPrefix(question, "bet"):
		return bet(ctx, h, question)
	case strings.HasPrefix(question, "count"):
		return say(ctx, h, strings.Repeat("tick tock ", 500))
	default:
		return say(ctx, h, "You said: "+question+". Ask me to roll, to bet, or to count.")
	}
}

// say streams words as a model does. If the run is cancelled, ctx ends and so does say.
func say(ctx context.Context, h *run.Handle, words string) error {
	for word := range strings.SplitAfterSeq(words, " ") {
		if err := h.Text(ctx, word); err != nil {
			return err
		}
		select {
		case <-time.After(30 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// roll uses a tool. Before the tool acts, the journal says that it will; a run that has
// to end starts no tool.
func roll(ctx context.Context, h *run.Handle) error {
	call, err := h.StartTool(ctx, "dice", json.RawMessage(`{"sides": 6}`), "")
	if err != nil {
		return err
	}
	n := rand.IntN(6) + 1
	result := thread.ToolResult{Result: json.RawMessage(fmt.Sprint(n))}
	if err := h.FinishTool(ctx, call, result); err != nil {
		return err
	}
	return say(ctx, h, fmt.Sprintf("You rolled %d.", n))
}

// bet first asks a person. The answer may come a day later, if the worker lives that long.
func bet(ctx context.Context, h *run.Handle, what string) error {
	if err := say(ctx, h, "Shall I really "+what+"? "); err != nil {
		return err
	}
	data, err := h.Wait(ctx, "approval-1") // the run's first question
	if err != nil {
		return err
	}
	var approval struct{ Yes bool }
	if json.Unmarshal(data, &approval) != nil || !approval.Yes {
		return say(ctx, h, "Then I will not.")
	}
	return say(ctx, h, "Done.")
}

func text(blocks []thread.Block) string {
	var all []string
	for _, b := range blocks {
		all = append(all, b.Content)
	}
	return strings.Join(all, " ")
}

//go:embed index.html
var page []byte

// serve serves the page and the store's API until ctx ends and the requests at hand have
// their answers.
func serve(ctx context.Context, l net.Listener, store *thole.Store) error {
	api := rest.New(store, nil)
	mux := http.NewServeMux()
	mux.Handle("/v1/", api)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(page)
	})
	server := &http.Server{Handler: mux}
	answered := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(answered)
		api.Drain() // event streams end, and browsers reconnect
		ending, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		server.Shutdown(ending)
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-answered
	return nil
}
