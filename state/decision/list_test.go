package decision_test

import (
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/state/decision"
)

func TestAPageOfFewAmongManyDecisionsIsBoundedWork(t *testing.T) {
	ctx := t.Context()
	s, err := thole.Open(ctx, memstore.New(), &thole.Options{Concepts: []*thole.Concept{decision.Concept}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d := decision.In(s.Space("project:shop"))
	const many = 12_000
	for i := range many {
		p := decision.Plan{Action: "x", Run: "run_other"}
		if i == 0 || i == many-1 {
			p.Run = "run_mine"
		}
		plan(t, d, p)
	}
	found, pages := 0, 0
	for opts := (decision.ListOptions{Run: "run_mine", Limit: 10}); ; {
		page, err := d.List(ctx, &opts)
		if err != nil {
			t.Fatal(err)
		}
		found, pages = found+len(page.Items), pages+1
		if opts.After = page.Next; page.Next == "" {
			break
		}
	}
	if found != 2 || pages < 3 {
		t.Errorf("found %d in %d pages, want 2 in some", found, pages)
	}
}
