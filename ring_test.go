package thole_test

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/sqlitestore"
)

func TestTheRingsBoundCountsRefs(t *testing.T) {
	ctx := t.Context()
	b, err := sqlitestore.Open(ctx, filepath.Join(t.TempDir(), "store.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := thole.Open(ctx, b, &thole.Options{RingBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sp := s.Space("project:shop")
	w, err := sp.Watch(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range 400 { // of 50 kB each
		refs := make([]string, 200)
		for i := range refs {
			refs[i] = strings.Repeat("r", 250)
		}
		if _, err := sp.Commit(ctx, thole.Commit{Events: []thole.Event{{Stream: "app/x", Type: "x.y", Refs: refs}}}); err != nil {
			t.Fatal(err)
		}
	}
	if grown := int64(heap()) - int64(before); grown > 8<<20 {
		t.Errorf("a ring of 1 MiB holds %d MiB", grown>>20)
	}
}
