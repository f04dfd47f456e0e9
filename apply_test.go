package thole_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

func applied(t *testing.T, s *thole.Store, batch ...thole.Commit) []thole.Result {
	t.Helper()
	results, err := s.Apply(t.Context(), batch)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return results
}

func rawCommit(space string, parts ...thole.Event) thole.Commit {
	return thole.Commit{Space: space, Now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Actor: "user:1", Events: parts}
}

func TestAnAppliedBatchReachesWatchersAndKeepsItsTime(t *testing.T) {
	s := open(t, nil)
	w, err := s.Space("user:1").Watch(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	fails := rawCommit("user:1", thole.Event{Stream: "s", Type: "a.b"})
	fails.Checks = []thole.Check{{Key: "k", At: thole.Position{Epoch: "0001aaaaaaaa", Seq: 9}}}
	first := rawCommit("user:1", thole.Event{Stream: "s", Type: "a.b", Data: json.RawMessage(` {"n" : 1} `)})
	results := applied(t, s, first, fails, rawCommit("user:1", thole.Event{Stream: "s", Type: "a.c"}))
	if results[0].Conflict != nil || results[1].Conflict == nil || results[2].Last.Seq != 2 {
		t.Fatalf("results: got %+v; want success at 1, a conflict, success at 2", results)
	}
	got, err := w.Next(t.Context())
	if err != nil || len(got) != 2 || !got[0].Time.Equal(first.Now) || string(got[0].Data) != ` {"n" : 1} ` {
		t.Errorf("watch: got %v, %v; want both events as they were given", got, err)
	}
	if now := s.Now(); time.Until(now) > 5*time.Second {
		t.Errorf("a commit of %v moved the store's time to %v", first.Now, now)
	}
}

func TestAMalformedCommitOfABatchFailsNoOther(t *testing.T) {
	s := open(t, nil)
	good := rawCommit("user:1", thole.Event{Stream: "s", Type: "a.b"})
	long := strings.Repeat("x", thole.MaxNameBytes+1)
	many := rawCommit("user:1")
	for range thole.MaxCommitItems + 1 {
		many.Events = append(many.Events, good.Events[0])
	}
	full := rawCommit("user:1")
	for range thole.MaxCommitBytes/thole.MaxValueBytes + 1 {
		big := json.RawMessage(`"` + strings.Repeat("x", thole.MaxValueBytes-2) + `"`)
		full.Events = append(full.Events, thole.Event{Stream: "s", Type: "a.b", Data: big})
	}
	twice := rawCommit("user:1")
	twice.Writes = []thole.Write{{Key: "k"}, {Key: "k"}}
	for name, bad := range map[string]thole.Commit{
		"space":       rawCommit("nothing", good.Events...),
		"empty":       rawCommit("user:1"),
		"long stream": rawCommit("user:1", thole.Event{Stream: long, Type: "a.b"}),
		"not UTF-8":   rawCommit("user:1", thole.Event{Stream: "\xff", Type: "a.b"}),
		"ref":         rawCommit("user:1", thole.Event{Stream: "s", Type: "a.b", Refs: []string{long}}),
		"not JSON":    rawCommit("user:1", thole.Event{Stream: "s", Type: "a.b", Data: json.RawMessage(`{`)}),
		"key":         {Space: "user:1", Writes: []thole.Write{{Key: ""}}},
		"key twice":   twice,
		"check":       {Space: "user:1", Checks: []thole.Check{{}}, Writes: []thole.Write{{Key: "k"}}},
		"items":       many,
		"bytes":       full,
	} {
		results := applied(t, s, bad, good, bad, good)
		for i, r := range results {
			refused := errors.Is(r.Err, thole.ErrInvalid) || errors.Is(r.Err, thole.ErrTooLarge)
			if refused != (i%2 == 0) || refused != r.Last.IsZero() {
				t.Errorf("%s: commit %d: got %v, %v; want only the malformed ones refused, as ErrInvalid or ErrTooLarge", name, i, r.Last, r.Err)
			}
		}
		before, _ := s.Space("user:1").Head(t.Context())
		_, err := s.Apply(t.Context(), []thole.Commit{bad, bad})
		if !errors.Is(err, thole.ErrInvalid) && !errors.Is(err, thole.ErrTooLarge) {
			t.Errorf("%s alone: got %v, want ErrInvalid or ErrTooLarge", name, err)
		}
		if head, err := s.Space("user:1").Head(t.Context()); err != nil || head.Last != before.Last || before.Last != results[3].Last {
			t.Errorf("%s: head: got %v, %v; want it where the last good commit left it, %v", name, head.Last, err, results[3].Last)
		}
	}
}

func TestApplyAfterCloseIsErrClosed(t *testing.T) {
	s := open(t, nil)
	s.Close()
	if _, err := s.Apply(t.Context(), []thole.Commit{rawCommit("user:1", thole.Event{Stream: "s", Type: "a.b"})}); !errors.Is(err, thole.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

func TestHintsTellOfEveryChangedSpace(t *testing.T) {
	s := open(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	hints, ended := make(chan string, 100), make(chan error)
	go func() { ended <- s.Hints(ctx, func(space string) { hints <- space }) }()
	next := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-hints:
				if got == want {
					return
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("no hint of %s", want)
			}
		}
	}
	next("") // the subscription has begun
	applied(t, s, rawCommit("user:1", thole.Event{Stream: "s", Type: "a.b"}))
	next("user:1")
	if _, err := s.Space("user:2").Commit(t.Context(), rawCommit("", thole.Event{Stream: "s", Type: "a.b"})); err != nil {
		t.Fatal(err)
	}
	next("user:2")
	if err := s.Space("user:1").Purge(t.Context(), thole.Purge{All: true}); err != nil {
		t.Fatal(err)
	}
	next("user:1")
	loaded := thole.Position{Epoch: "0001aaaaaaaa", Seq: 1}
	if err := s.Load(t.Context(), "user:3", journal.Chunk{Done: true, Head: thole.Head{
		Space: "user:3", Oldest: loaded, Last: loaded, Epochs: []journal.Epoch{{Name: loaded.Epoch, First: 1, Last: 1}},
	}}); err != nil {
		t.Fatal(err)
	}
	next("user:3")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Hints after its context: got %v, want nil", err)
	}
}

func TestMoreSpacesThanAreRememberedAreHintedAtAsAll(t *testing.T) {
	s := open(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hints, looked := make(chan string), make(chan struct{})
	go s.Hints(ctx, func(space string) {
		hints <- space
		<-looked
	})
	<-hints               // the first hint
	for i := range 1100 { // while the receiver handles it
		applied(t, s, rawCommit("user:x"+string(rune('a'+i%26))+strings.Repeat("y", i/26), thole.Event{Stream: "s", Type: "a.b"}))
	}
	close(looked)
	select {
	case space := <-hints:
		if space != "" {
			t.Errorf("hint: got %q, want the one for all", space)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no hint of all")
	}
}
