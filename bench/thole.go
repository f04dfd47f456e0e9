package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/state/thread"
)

// openStore opens a Thole store on a SQLite file in dir, as a program would.
func openStore(ctx context.Context, dir string) (*thole.Store, error) {
	return openStoreWith(ctx, dir, nil)
}

func openStoreWith(ctx context.Context, dir string, opts *thole.Options) (*thole.Store, error) {
	return openWith(ctx, "sqlite:"+filepath.Join(dir, "thole.db"), opts)
}

// text is a message of n bytes.
func text(n int) thread.Message {
	return thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock(strings.Repeat("x", n))}}
}

// createThreads makes n threads and returns their ids.
func createThreads(ctx context.Context, ts *thread.Threads, n int) ([]string, error) {
	ids := make([]string, n)
	_, err := load(ctx, 64, 0, func(w, _ int) error {
		for i := w; i < n; i += 64 {
			t, err := ts.Create(ctx, nil)
			if err != nil {
				return err
			}
			ids[i] = t.ID
		}
		return nil
	})
	return ids, err
}

// tholeAppends is ours, on any engine: messages whose event has 512 bytes of
// content, appended through the public library, each an event, the thread's head
// record and the check of its version.
func tholeAppends(open engine, n, threads int) func(context.Context, string, time.Duration) (sample, error) {
	return func(ctx context.Context, dir string, d time.Duration) (sample, error) {
		s, closed, err := open(ctx, dir)
		if err != nil {
			return sample{}, err
		}
		defer closed()
		ts := thread.In(s.Space("project:bench"))
		ids, err := createThreads(ctx, ts, threads)
		if err != nil {
			return sample{}, err
		}
		m := text(recordSize)
		return load(ctx, n, d, func(w, i int) error {
			_, err := ts.Append(ctx, ids[(w*7919+i)%threads], m, nil)
			return err
		})
	}
}

// tholePath is where the thole server's events are watched.
const tholePath = "/v1/spaces/project:bench/events"

// publisher returns a function that commits one event of about 300 bytes.
func publisher(s *thole.Store) func() error {
	sp := s.Space("project:bench")
	return func() error {
		_, err := sp.Commit(context.Background(), thole.Commit{Events: []thole.Event{
			{Stream: "app/bench", Type: "bench.tick", Data: json.RawMessage(payload())},
		}})
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		return nil
	}
}

// tholeServer serves a store in dir and returns a function that publishes to
// its watchers.
func tholeServer(dir string) (api http.Handler, publish func() error, stop func(), err error) {
	s, err := openStore(context.Background(), dir)
	if err != nil {
		return nil, nil, nil, err
	}
	return rest.New(s, nil), publisher(s), func() { s.Close() }, nil
}
