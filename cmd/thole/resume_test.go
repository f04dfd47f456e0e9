package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/servertest"
)

const cutSpace = "project:cut"

func TestABrokenLineCostsAWatcherNothing(t *testing.T) {
	watchThroughCuts(t, servertest.Start(t, servertest.Setup{}), 20, nil)
}

func TestAWatcherMissesNothingOverManyCutsAndTwoRestarts(t *testing.T) {
	servertest.Faults(t)
	s := servertest.Start(t, servertest.Setup{})
	cuts := effort.Amount(20, 60, 200)
	watchThroughCuts(t, s, cuts, []fault{{after: cuts / 3, do: s.Kill}, {after: 2 * cuts / 3, do: s.Terminate}})
	servertest.MustBeHealthy(t, s.Store)
}

// A cursor that cannot be resumed gets an error: there is no silent gap and no full
// replay.
func TestACursorThatIsNotOfThisHistoryIsTrimmed(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{})
	s.Must("PUT", "/v1/spaces/"+cutSpace+"/kv/a/b", map[string]any{"data": 1}, nil)
	head := s.Events(cutSpace)[0].Position
	epoch, _ := servertest.Seq(t, head)
	url := s.URL + "/v1/spaces/" + cutSpace + "/events"
	for name, cursor := range map[string]string{
		"beyond the head":    epoch + "-0000000000000002",
		"far beyond":         epoch + "-9007199254740991",
		"of another epoch":   "000100000000-0000000000000001",
		"of a later epoch":   "9999ffffffff-0000000000000001",
		"of an unborn epoch": "000000000000-0000000000000000",
	} {
		for where, watch := range map[string]func() error{
			"Last-Event-ID": func() error {
				return servertest.Watch(t.Context(), s.HTTP, url, cursor, func(servertest.Frame) error { return nil })
			},
			"after": func() error {
				return servertest.Watch(t.Context(), s.HTTP, url+"?after="+cursor, "-", func(servertest.Frame) error { return nil })
			},
		} {
			var refused *servertest.RefusedError
			if err := watch(); !errors.As(err, &refused) || refused.Status != http.StatusGone || refused.Code() != "trimmed" {
				t.Errorf("a cursor %s in %s: got %v, want 410 trimmed", name, where, err)
			}
		}
		if out, err := servertest.CLI(t.Context(), "tail", cutSpace, "--server", s.URL, "--after", cursor); err == nil {
			t.Errorf("tail with a cursor %s: got %q, want an error", name, out)
		}
	}
}

// A watcher of files that people change gets an error and continues from the current
// state.
func TestAnEditOfAFileTrimsWatchersWhichGoOn(t *testing.T) {
	dir := t.TempDir()
	s := servertest.Start(t, servertest.Setup{Dir: dir, Store: "file:" + filepath.Join(dir, "state")})
	document := "/v1/spaces/" + cutSpace + "/documents/settings"
	s.Must("PUT", document, map[string]any{"value": map[string]any{"theme": "light"}}, nil)
	url := s.URL + "/v1/spaces/" + cutSpace + "/events"
	tail := servertest.StartTail(t, cutSpace, "--server", s.URL, "--after=")
	own := servertest.StartTail(t, cutSpace, "--store", s.Store, "--after=")
	some := servertest.StartTail(t, cutSpace, "--store", s.Store, "--after=", "--types=document.*")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	edit := sync.OnceFunc(func() {
		file := filepath.Join(dir, "state", "project", "cut", "records", "document", "settings.json")
		servertest.Eventually(t, 10*time.Second, "the event at both, and the record in its file", func() bool {
			_, err := os.Stat(file)
			return err == nil && len(tail.Events()) == 1 && len(own.Events()) == 1 && len(some.Events()) == 1
		})
		s.Must("PUT", "/v1/spaces/"+cutSpace+"/kv/cut/other", map[string]any{"data": 1}, nil) // some watchers filter this out
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, bytes.Replace(text, []byte("light"), []byte("dark"), 1), 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	})
	cursor, refusal := "", ""
	err := servertest.Watch(ctx, s.HTTP, url, "", func(f servertest.Frame) error {
		if f.Event == "error" {
			refusal = f.Data
			return nil
		}
		if cursor = f.ID; f.Event == "document.changed" {
			edit()
		}
		return nil
	})
	if !errors.Is(err, io.EOF) || !strings.Contains(refusal, `"code":"trimmed"`) {
		t.Fatalf("a watcher: got %v and %s, want the end and trimmed", err, refusal)
	}
	var now struct{ Value struct{ Theme string } }
	if s.Must("GET", document, nil, &now); now.Value.Theme != "dark" {
		t.Errorf("the state anew: got %s, want dark", now.Value.Theme)
	}
	enough := errors.New("enough")
	err = servertest.Watch(ctx, s.HTTP, url, cursor, func(f servertest.Frame) error {
		if f.Event != "space.adopted" {
			t.Errorf("after the edit: got %+v, want space.adopted", f)
		}
		return enough
	})
	if err != enough {
		t.Errorf("a cursor from before the edit: got %v, want that it resumes", err)
	}
	s.Must("PUT", document, map[string]any{"value": map[string]any{"theme": "green"}}, nil)
	journal := s.Events(cutSpace)
	for _, w := range []*servertest.Tail{tail, own} {
		servertest.Eventually(t, 10*time.Second, "what came after the edit", func() bool { return len(w.Events()) >= len(journal) })
		mustHavePrinted(w, "thole tail", journal)
	}
	servertest.Eventually(t, 10*time.Second, "the document's events", func() bool { return len(some.Events()) == 2 })
}

// fault happens to a server once its watcher's connection was cut that often.
type fault struct {
	after int
	do    func()
}

// watchThroughCuts has a client and a thole tail watch, each through a proxy that cuts
// the connection that often, while others write and faults happen. Both must receive
// every durable event once and in order.
func watchThroughCuts(t *testing.T, s *servertest.Server, cuts int, faults []fault) {
	t.Helper()
	line, tailLine := servertest.StartProxy(t, cuts), servertest.StartProxy(t, cuts)
	line.To(s)
	tailLine.To(s)
	s.Must("PUT", "/v1/spaces/"+cutSpace+"/kv/cut/begin", map[string]any{"data": 0}, nil)
	tail := servertest.StartTail(t, cutSpace, "--server", tailLine.URL, "--after=")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &follower{url: line.URL + "/v1/spaces/" + cutSpace + "/events"}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { c.follow(ctx) })

	var restarts sync.RWMutex // held for writing while the server is down
	writing, stop := context.WithCancel(ctx)
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() { write(writing, t, s, &restarts, i) })
	}
	for _, f := range faults {
		servertest.Eventually(t, time.Minute, "enough cuts", func() bool { return line.Cuts() >= f.after })
		f.do()
		restarts.Lock()
		s.Start()
		line.To(s)
		tailLine.To(s)
		restarts.Unlock()
	}
	for _, p := range []*servertest.Proxy{line, tailLine} {
		select {
		case <-p.Done:
		case <-time.After(5 * time.Minute):
			t.Fatalf("%d of %d cuts", p.Cuts(), cuts)
		}
	}
	stop()
	writers.Wait()

	journal := s.Events(cutSpace)
	want := positions(journal)
	servertest.Eventually(t, 30*time.Second, "the last event at the client", func() bool { return len(c.positions()) >= len(want) })
	servertest.Eventually(t, 30*time.Second, "the last event at thole tail", func() bool { return len(tail.Events()) >= len(want) })
	if got := c.positions(); !slices.Equal(got, want) {
		t.Errorf("the client received %d events, the journal has %d, or in another order", len(got), len(want))
	}
	if err := c.err(); err != nil {
		t.Error(err)
	}
	mustHavePrinted(tail, "thole tail", journal)
	t.Logf("%d cuts, %d connections, %d restarts: %d events, each received once and in order", line.Cuts(), c.connections(), len(faults), len(want))
}

func positions(events []servertest.Event) (all []string) {
	for _, e := range events {
		all = append(all, e.Position)
	}
	return all
}

// write sets values until ctx ends. It repeats what gets no answer.
func write(ctx context.Context, t *testing.T, s *servertest.Server, restarts *sync.RWMutex, writer int) {
	for n := 0; ctx.Err() == nil; {
		restarts.RLock()
		r, err := s.Do(t.Context(), "PUT", fmt.Sprintf("/v1/spaces/%s/kv/cut/%d-%d", cutSpace, writer, n%100), map[string]any{"data": n})
		restarts.RUnlock()
		if err == nil && r.Status != http.StatusOK && r.Status != http.StatusServiceUnavailable {
			t.Errorf("write: %d %s", r.Status, r.Body)
		}
		if err == nil {
			n++
		}
		select {
		case <-time.After(2 * time.Millisecond): // slow enough that the watchers follow live
		case <-ctx.Done():
		}
	}
}

// follower is a client that reconnects with Last-Event-ID whenever its connection
// breaks.
type follower struct {
	url string

	mu       sync.Mutex
	received []string
	opened   int
	refused  error
}

func (f *follower) follow(ctx context.Context) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for last := ""; ctx.Err() == nil; {
		err := servertest.Watch(ctx, client, f.url, last, func(fr servertest.Frame) error {
			if fr.ID != "" {
				last = fr.ID
				f.take(fr.ID)
			}
			return nil
		})
		f.mu.Lock()
		f.opened++
		var refused *servertest.RefusedError
		if errors.As(err, &refused) {
			f.refused = err
		}
		f.mu.Unlock()
	}
}

func (f *follower) take(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.received = append(f.received, id)
}

func (f *follower) positions() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.received)
}

func (f *follower) connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened
}

// err returns an answer that a watcher should never get.
func (f *follower) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}
