package main_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/internal/servertest"
)

const livePath = "/v1/spaces/project:live"

// live is what a watcher of a space received of one run's text.
type live struct {
	deltas, early int    // deltas without a position; those before the run had started
	text          string // of these deltas and of the committed ones, joined by offset
}

// watchLive watches a server until a run has ended there.
func watchLive(ctx context.Context, s *servertest.Server, attached chan<- struct{}) (l live, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	running := false
	err = servertest.Watch(ctx, client, s.URL+livePath+"/events", "", func(f servertest.Frame) error {
		switch {
		case f.Event == "thread.created":
			attached <- struct{}{}
		case f.Event == "run.started":
			running = true
		case f.Event == "message.delta":
			var e struct {
				Data struct {
					Offset int
					Text   string
				}
			}
			if err := json.Unmarshal([]byte(f.Data), &e); err != nil {
				return err
			}
			if f.ID == "" {
				l.deltas++
				if !running {
					l.early++
				}
			}
			if end := e.Data.Offset + len(e.Data.Text); e.Data.Offset <= len(l.text) && end > len(l.text) {
				l.text = l.text[:e.Data.Offset] + e.Data.Text
			}
		case f.Event == "run.finished":
			cancel()
		}
		return nil
	})
	if ctx.Err() != nil {
		err = nil
	}
	return l, err
}

// Two servers share a PostgreSQL; a third one uses the first as its store. A run in any
// of them is seen live through all: broadcasts arrive, though a late one may be
// missing, and with the committed chunks the text is complete.
func TestLiveTextReachesTheWatchersOfEveryServer(t *testing.T) {
	servertest.Faults(t)
	dsn := pgtest.Start(t).Database(t)
	first := servertest.Start(t, servertest.Setup{Store: dsn, Script: killScript})
	second := servertest.Start(t, servertest.Setup{Store: dsn, Script: killScript})
	third := servertest.Start(t, servertest.Setup{Store: first.URL, Script: killScript})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for name, at := range map[string]*servertest.Server{"first": first, "second": second, "third": third} {
		t.Run("run in the "+name, func(t *testing.T) {
			all := []*servertest.Server{first, second, third}
			seen, errs := make([]live, len(all)), make(chan error, len(all))
			attached := make(chan struct{}, 100)
			var thread struct{ ID string }
			at.Must("POST", livePath+"/threads", map[string]any{}, &thread)
			for i, s := range all {
				go func() {
					var err error
					seen[i], err = watchLive(ctx, s, attached)
					errs <- err
				}()
			}
			for range all {
				<-attached
			}
			at.Must("POST", livePath+"/threads/"+thread.ID+"/runs", map[string]any{"prompt": "Tell story"}, nil)
			for range all {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			for i, l := range seen {
				if !strings.HasPrefix(l.text, "Once there was") || !strings.HasSuffix(strings.TrimSpace(l.text), "they were home.") || l.deltas == 0 || l.early > 0 {
					t.Errorf("server %d: %d live deltas, %d of them before the run had started, with the text %q", i+1, l.deltas, l.early, l.text)
				}
			}
			at.Must("DELETE", livePath, nil, nil)
		})
	}
}
