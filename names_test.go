package thole_test

import (
	"errors"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// Names in applied and imported commits are checked as those of this Store's own
// commits are.
func TestNamesThatAreAppliedOrImportedHoldNoControlCharacters(t *testing.T) {
	s := open(t, nil)
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	epoch := journal.NewEpoch(1)
	first := thole.Position{Epoch: epoch, Seq: 1}
	head := thole.Head{Oldest: first, Last: first, Epochs: []journal.Epoch{{Name: epoch, First: 1, Last: 1}}}
	for _, bad := range []string{"a\nb", "a\r\ndata: x", "a\x00b", "a\x7fb", "\xff"} {
		with := func(set func(*thole.Event)) []thole.Event {
			e := thole.Event{Stream: "s", Type: "a.b", Data: []byte("1")}
			set(&e)
			return []thole.Event{e}
		}
		events := map[string][]thole.Event{
			"stream":  with(func(e *thole.Event) { e.Stream = bad }),
			"type":    with(func(e *thole.Event) { e.Type = bad }),
			"subject": with(func(e *thole.Event) { e.Subject = bad }),
			"ref":     with(func(e *thole.Event) { e.Refs = []string{bad} }),
		}
		commits := map[string]thole.Commit{
			"actor": {Actor: bad, Events: with(func(*thole.Event) {})},
			"cause": {Cause: bad, Events: with(func(*thole.Event) {})},
			"key":   {Writes: []thole.Write{{Key: bad, Value: []byte("1")}}},
			"check": {Checks: []thole.Check{{Key: bad}}, Events: with(func(*thole.Event) {})},
		}
		chunks := map[string]journal.Chunk{
			"key":        {Head: head, Records: []thole.Record{{Key: bad, Value: []byte("1"), Version: first, Updated: now}}},
			"actor":      {Head: head, Events: with(func(e *thole.Event) { e.Actor = bad })},
			"cause":      {Head: head, Events: with(func(e *thole.Event) { e.Cause = bad })},
			"epoch name": {Head: thole.Head{Oldest: thole.Position{Epoch: bad, Seq: 1}, Last: thole.Position{Epoch: bad, Seq: 1}, Epochs: []journal.Epoch{{Name: bad, First: 1, Last: 1}}}},
		}
		for what, e := range events {
			commits[what] = thole.Commit{Events: e}
			chunks[what] = journal.Chunk{Head: head, Events: e}
		}
		for what, c := range commits {
			c.Space, c.Now = "user:1", now
			if _, err := s.Apply(t.Context(), []thole.Commit{c}); !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("apply with %s %q: got %v, want ErrInvalid", what, bad, err)
			}
		}
		for what, c := range chunks {
			for i := range c.Events {
				c.Events[i].Position, c.Events[i].Time = first, now
			}
			if err := s.Load(t.Context(), "user:2", c); !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("load with %s %q: got %v, want ErrInvalid", what, bad, err)
			}
		}
	}
}

// Nobody can tell such a type from another one.
func TestANewEventsTypeHoldsNoCharacterThatNobodySees(t *testing.T) {
	s := open(t, nil)
	sp := s.Space("user:1")
	for _, bad := range []string{"ru\u200bn.started", "run.\u202estarted", "run.started\u200f", "\ufeffrun.started", "run.\u00a0started", "run.\u0085x", "r\u034fun.x", "run.\u3164x", "\u2800run.x", "run\U0001d159.x", "run.x\U00016fe4", "run.x\ufe0f", "run.\U000e0041"} {
		if _, err := sp.Commit(t.Context(), thole.Commit{Events: []thole.Event{{Stream: "s", Type: bad}}}); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("%+q: got %v, want ErrInvalid", bad, err)
		}
		concept := &thole.Concept{Name: "a", Events: []thole.EventType{{Type: bad, About: "x", Streams: []string{"a"}}}}
		if _, err := thole.NewConcepts(concept); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("declared %+q: got %v, want ErrInvalid", bad, err)
		}
		// A journal of an earlier version is copied and read.
		applied(t, s, rawCommit("user:2", thole.Event{Stream: "s", Type: bad}))
		page, err := s.Space("user:2").Read(t.Context(), thole.ReadQuery{Types: []string{bad}})
		if err != nil || len(page.Events) != 1 || page.Events[0].Type != bad {
			t.Errorf("%+q cannot be read: %v, %v", bad, page.Events, err)
		}
	}
	for _, good := range []string{"sync.file_written", "größe.geändert", "同期.完了", "a.b c"} {
		if _, err := sp.Commit(t.Context(), thole.Commit{Events: []thole.Event{{Stream: "s", Type: good}}}); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}
