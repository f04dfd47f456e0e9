package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// library is a store with many messages, made once and shared by all rounds.
type library struct {
	once sync.Once
	dir  string
	err  error
}

// fill writes n messages of 300 bytes into each of the threads. It commits many
// messages at a time, with the events that Threads.Append would make.
func (l *library) fill(ctx context.Context, threads, n int) (string, error) {
	l.once.Do(func() { l.err = l.make(ctx, threads, n) })
	return l.dir, l.err
}

func (l *library) make(ctx context.Context, threads, n int) (err error) {
	if l.dir, err = os.MkdirTemp("", "thole-bench-library-"); err != nil {
		return err
	}
	s, err := openStore(ctx, l.dir)
	if err != nil {
		return err
	}
	defer s.Close()
	sp := s.Space("project:bench")
	ids, err := createThreads(ctx, thread.In(sp), threads)
	if err != nil {
		return err
	}
	const chunk = 100
	_, err = load(ctx, 64, 0, func(w, _ int) error {
		for t := w; t < threads; t += 64 {
			for done := 0; done < n; done += chunk {
				_, err := sp.Update(ctx, func(tx *thole.Tx) error {
					for range min(chunk, n-done) {
						if _, err := thread.Append(tx, ids[t], text(300)); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	return err
}

// loads measures loading the last 50 messages of a random thread of l. With
// cold, no thread is loaded twice in a row of as many, so that little is kept
// decoded in memory.
func loads(l *library, n, threads, messages int, opts *thole.Options) func(context.Context, string, time.Duration) (sample, error) {
	return func(ctx context.Context, _ string, d time.Duration) (sample, error) {
		dir, err := l.fill(ctx, threads, messages)
		if err != nil {
			return sample{}, err
		}
		s, err := openStoreWith(ctx, dir, opts)
		if err != nil {
			return sample{}, err
		}
		defer s.Close()
		ts := thread.In(s.Space("project:bench"))
		var ids []string
		for cursor := ""; ; {
			page, err := ts.List(ctx, &thread.ListOptions{Cursor: cursor})
			if err != nil {
				return sample{}, err
			}
			for _, e := range page.Items {
				ids = append(ids, e.ID)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		return load(ctx, n, d, func(int, int) error {
			page, err := ts.Messages(ctx, ids[rand.IntN(len(ids))], nil)
			if err == nil && len(page.Items) != 50 {
				err = fmt.Errorf("got %d messages", len(page.Items))
			}
			return err
		})
	}
}

// remove deletes what was made.
func (l *library) remove() {
	if l.dir != "" {
		os.RemoveAll(l.dir)
	}
}
