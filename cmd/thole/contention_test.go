package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/servertest"
)

const shared = "/v1/spaces/project:shared"

func TestIncrementsOfManyClientsAllCount(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{})
	countTogether(t, []*servertest.Server{s}, effort.Amount(16, 64, 64), effort.Amount(25, 50, 200))
}

func TestIncrementsThroughTwoServersOnOneFileAllCount(t *testing.T) {
	servertest.Faults(t)
	first := servertest.Start(t, servertest.Setup{})
	second := servertest.Start(t, servertest.Setup{Store: first.Store})
	countTogether(t, []*servertest.Server{first, second}, 64, effort.Amount(25, 50, 200))
}

func TestAppendsWithIfMatchLoseNothing(t *testing.T) {
	appendTogether(t, servertest.Start(t, servertest.Setup{}), effort.Amount(8, 64, 64), effort.Amount(5, 10, 10))
}

// countTogether has clients of servers on one store increment one document, each so
// many times, while each server has a watcher.
func countTogether(t *testing.T, servers []*servertest.Server, clients, times int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	total := clients * times
	seen := make([][]string, len(servers))
	var watchers, writers sync.WaitGroup
	for i, s := range servers {
		watchers.Go(func() { seen[i] = watchChanges(ctx, t, s, total) })
	}
	begin := time.Now()
	for c := range clients {
		s := servers[c%len(servers)]
		writers.Go(func() {
			for range times {
				r, err := s.Do(ctx, "PATCH", shared+"/documents/counter", increment())
				if err != nil || r.Status != 200 {
					t.Errorf("increment: %d %s %v", r.Status, r.Body, err)
					return
				}
			}
		})
	}
	writers.Wait()
	took := time.Since(begin)
	watchers.Wait()
	for i, s := range servers {
		var doc struct{ Value struct{ N int } }
		s.Must("GET", shared+"/documents/counter", nil, &doc)
		if doc.Value.N != total {
			t.Errorf("the counter, read from server %d: got %d, want %d", i+1, doc.Value.N, total)
		}
		if len(seen[i]) != total || !slices.Equal(seen[i], seen[0]) {
			t.Errorf("watcher %d saw %d changes, want the %d that the first saw, in their order", i+1, len(seen[i]), total)
		}
		seqs := slices.IsSorted(seen[i])
		if !seqs || len(slices.Compact(slices.Clone(seen[i]))) != len(seen[i]) {
			t.Errorf("watcher %d saw changes twice or out of order", i+1)
		}
	}
	servertest.MustBeHealthy(t, servers[0].Store)
	t.Logf("%d servers, %d clients × %d increments: counter %d in %v", len(servers), clients, times, total, took.Round(time.Millisecond))
}

var errEnough = errors.New("seen enough")

// watchChanges returns the positions of the first n document.changed events.
func watchChanges(ctx context.Context, t *testing.T, s *servertest.Server, n int) (positions []string) {
	err := servertest.Watch(ctx, s.HTTP, s.URL+shared+"/events", "", func(f servertest.Frame) error {
		if f.Event == "document.changed" {
			positions = append(positions, f.ID)
		}
		if len(positions) == n {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Errorf("a watcher ended after %d of %d changes: %v", len(positions), n, err)
	}
	return positions
}

func increment() any {
	return map[string]any{"ops": []any{map[string]any{"op": "increment", "path": "/n"}}}
}

// appender posts messages to one thread, each on the condition that nobody else has
// posted since it last read the thread.
type appender struct {
	s         *servertest.Server
	path      string
	name      string
	version   string            // ETag last seen
	next      map[string]string // the version before each append → the version after it
	conflicts int
}

// appendTogether has clients append to one thread under If-Match.
func appendTogether(t *testing.T, s *servertest.Server, clients, times int) {
	t.Helper()
	var thread struct{ ID string }
	version := s.Must("POST", shared+"/threads", map[string]any{}, &thread).Header.Get("ETag")
	path := shared + "/threads/" + thread.ID
	appenders := make([]*appender, clients)
	var wg sync.WaitGroup
	for i := range appenders {
		a := &appender{s: s, path: path, name: fmt.Sprintf("c%d", i), version: version, next: map[string]string{}}
		appenders[i] = a
		wg.Go(func() {
			for n := range times {
				if err := a.append(t.Context(), fmt.Sprintf("%s-%d.", a.name, n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	next, conflicts := map[string]string{}, 0
	for _, a := range appenders {
		conflicts += a.conflicts
		for from, to := range a.next {
			if next[from] != "" {
				t.Errorf("two appends were made on version %s", from)
			}
			next[from] = to
		}
	}
	n := 0
	for ; next[version] != ""; version = next[version] {
		n++
	}
	if n != clients*times {
		t.Errorf("one append on the other: got a chain of %d, want %d", n, clients*times)
	}
	said := map[string]int{}
	for _, text := range messages(s, path) {
		said[text]++
	}
	if len(said) != clients*times {
		t.Errorf("messages in the thread: got %d, want %d", len(said), clients*times)
	}
	servertest.MustBeHealthy(t, s.Store)
	t.Logf("%d clients × %d appends with If-Match: %d messages, %d conflicts", clients, times, len(said), conflicts)
}

// append posts text. Every conflict must be a 412 that returns the current version,
// with which it tries again.
func (a *appender) append(ctx context.Context, text string) error {
	body := map[string]any{"role": "user", "blocks": []any{map[string]any{"type": "text", "content": text}}}
	for {
		r, err := a.s.Do(ctx, "POST", a.path+"/messages", body, "If-Match", a.version)
		if err != nil {
			return err
		}
		tag := r.Header.Get("ETag")
		if r.Status == 201 {
			a.next[a.version], a.version = tag, tag
			return nil
		}
		var p struct{ Code, Current string }
		json.Unmarshal(r.Body, &p) // the checks below find what is wrong with it
		if r.Status != 412 || p.Code != "conflict" || tag != `"`+p.Current+`"` || strings.Compare(tag, a.version) <= 0 {
			return fmt.Errorf("append on %s: got %d with ETag %s, want 412 with a newer one: %s", a.version, r.Status, tag, r.Body)
		}
		a.version = tag
		a.conflicts++
	}
}

// messages returns the texts of all messages of a thread.
func messages(s *servertest.Server, thread string) (texts []string) {
	s.T.Helper()
	for cursor := ""; ; {
		var page struct {
			Items []struct{ Blocks []struct{ Content string } }
			Next  string `json:"next_cursor"`
		}
		s.Must("GET", thread+"/messages?last=500"+servertest.After(cursor), nil, &page)
		for _, m := range page.Items {
			texts = append(texts, m.Blocks[0].Content)
		}
		if cursor = page.Next; cursor == "" {
			return texts
		}
	}
}
