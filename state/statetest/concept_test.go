package statetest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/all"
)

func TestEveryRecordIsDeclaredAndFitsItsType(t *testing.T) {
	cs, err := thole.NewConcepts(all.Concepts()...)
	if err != nil {
		t.Fatal(err)
	}
	records, keys := specimens(t)
	if len(keys) < 25 {
		t.Fatalf("only %d keys were written", len(keys))
	}
	for _, key := range keys {
		if r, _ := cs.Record(key); r == nil && !strings.Contains(key, "/x/rec_") { // declared by the test
			t.Errorf("%s is not declared", key)
		}
	}
	for _, rec := range records {
		r, _ := cs.Record(rec.Key)
		if r == nil && strings.Contains(rec.Key, "/x/rec_") {
			continue
		} else if r == nil {
			t.Errorf("%s is not declared", rec.Key)
		} else if err := r.Decode(rec.Key, rec.Value); err != nil {
			t.Errorf("%s: %v", r.Key, err)
		}
	}
}

func TestEveryConceptIsListed(t *testing.T) {
	given := all.Concepts()
	cs, err := thole.NewConcepts(given...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cs.All()[1:] {
		if !slices.Contains(given, c) {
			t.Errorf("%s is needed by others and not listed", c.Name)
		}
	}
}
