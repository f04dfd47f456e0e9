package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend"
	"github.com/thole-dev/thole/internal/servertest"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// holderVariable makes this test binary a worker: a process that holds a run, writes a
// block to the run's turn for each line that it reads, and prints the result. Its value
// says how to reach the store: "rest URL TOKEN" or "library DSN".
const holderVariable = "THOLE_TEST_HOLDER"

// holderSpace is where it claims its run, of the agent "worker".
const holderSpace = "project:held"

func runHolder(how string) error {
	var kind, where, token string
	fmt.Sscan(how, &kind, &where, &token) // checked below
	switch kind {
	case "rest":
		return holdOverREST(where, token)
	case "library":
		return holdInProcess(where)
	}
	return fmt.Errorf("%s=%q", holderVariable, how)
}

// commands calls write for each line of the standard input and prints the word that
// write returns.
func commands(write func(line string) string) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(write(in.Text()))
	}
}

func holdOverREST(url, token string) error {
	client := &http.Client{Transport: servertest.Bearer{Token: token, Next: http.DefaultTransport}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := servertest.Request(ctx, client, "POST", url+"/v1/runs/claim", map[string]any{"spaces": []string{holderSpace}, "agent": "worker", "wait_seconds": 10})
	if err != nil || r.Status != http.StatusOK {
		return fmt.Errorf("claim: %d %s %w", r.Status, r.Body, err)
	}
	var got struct {
		Run         struct{ ID, Thread string }
		Turn, Token string
	}
	if err := json.Unmarshal(r.Body, &got); err != nil {
		return err
	}
	path := url + "/v1/spaces/" + holderSpace + "/threads/" + got.Run.Thread
	go func() { // as the API's documentation says
		for {
			select {
			case <-time.After(10 * time.Second):
				servertest.Request(ctx, client, "POST", path+"/runs/"+got.Run.ID+"/heartbeat", nil, "Thole-Fence", got.Token)
			case <-ctx.Done():
				return
			}
		}
	}()
	fmt.Println("holding", got.Run.ID)
	commands(func(line string) string {
		r, err := servertest.Request(ctx, client, "POST", path+"/turns/"+got.Turn+"/blocks", map[string]any{"type": "text", "content": line}, "Thole-Fence", got.Token)
		switch {
		case err != nil:
			return err.Error()
		case r.Status == http.StatusCreated:
			return "written"
		}
		return fmt.Sprint(r.Status, " ", r.Code())
	})
	return nil
}

func holdInProcess(dsn string) error {
	ctx := context.Background()
	b, err := backend.Open(ctx, dsn)
	if err != nil {
		return err
	}
	store, err := thole.Open(ctx, b, &thole.Options{Concepts: rest.Concepts(), Sweep: -1})
	if err != nil {
		return err
	}
	h, err := run.In(store.Space(holderSpace), nil).Claim(ctx, &run.ClaimOptions{Agent: "worker", Wait: 10 * time.Second})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	fmt.Println("holding", h.ID())
	err = h.Do(ctx, func(_ context.Context, h *run.Handle) error {
		commands(func(line string) string {
			_, err := h.Block(ctx, thread.Block{Type: thread.Text, Content: line})
			switch {
			case errors.Is(err, thole.ErrFenced):
				return "fenced"
			case err != nil:
				return err.Error()
			}
			return "written"
		})
		return nil
	})
	if errors.Is(err, thole.ErrFenced) {
		err = nil
	}
	return errors.Join(err, store.Close())
}
