package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/state/statetest/reminder"
	"github.com/thole-dev/thole/state/thread"
)

func TestDoctorChecksANewConcept(t *testing.T) {
	ctx := t.Context()
	s, err := thole.Open(ctx, memstore.New(), &thole.Options{Concepts: append(rest.Concepts(), reminder.Concept), Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sp := s.Space("project:a")
	chat, err := thread.In(sp).Create(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reminder.In(sp).Set(ctx, chat.ID, "hello", s.Now().AddDate(1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	examine := func() (report string, err error) {
		var out bytes.Buffer
		d := &doctor{store: s, p: printer{w: &out}}
		err = d.examine(ctx)
		return out.String(), err
	}
	if report, err := examine(); err != nil {
		t.Errorf("a healthy store: %v\n%s", err, report)
	}
	_, err = sp.Commit(ctx, thole.Commit{Writes: []thole.Write{
		{Key: "reminder/unfit", Value: json.RawMessage(`{"due_at":7}`)},
		{Key: "reminder/empty", Value: json.RawMessage(`{"thread":"` + chat.ID + `"}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	report, err := examine()
	for _, want := range []string{"reminder/unfit: ", "record reminder/empty has no text", "2 problems"} {
		if !errors.Is(err, errUnhealthy) || !strings.Contains(report, want) {
			t.Errorf("got %v, want %q in\n%s", err, want, report)
		}
	}
}
