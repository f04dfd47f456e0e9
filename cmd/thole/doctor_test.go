package main_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/state/decision"
)

func TestDoctorNotesDecisionsWithoutAnOutcome(t *testing.T) {
	ctx, file := t.Context(), filepath.Join(t.TempDir(), "thole.db")
	b, err := sqlitestore.Open(ctx, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := thole.Open(ctx, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	decisions := decision.In(s.Space("project:shop"))
	for i := range 3 {
		d, err := decisions.Plan(ctx, decision.Plan{Action: "write a file"})
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			continue
		}
		if _, err := decisions.Resolve(ctx, d.ID, decision.Done, nil); err != nil {
			t.Fatal(err)
		}
	}
	got := command(t, t.TempDir(), nil, "doctor", "--store", "sqlite:"+file)
	const want = "2 decisions have no outcome; see `thole get project:shop decision-open/`"
	if got.Code != 0 || !strings.Contains(got.Out, want) {
		t.Errorf("got %+v, want a note: %s", got, want)
	}
	if got := command(t, t.TempDir(), nil, "get", "project:shop", "decision-open/", "--store", "sqlite:"+file); strings.Count(got.Out, "\n") != 2 {
		t.Errorf("what the note names: got %+v, want two records", got)
	}
}
