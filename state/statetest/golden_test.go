package statetest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/all"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

// testdata/vN.db is a store with all concepts in it, as a program of version N wrote
// it, and testdata/vN.json is what is read from it, in today's shapes. To write the
// newest version again, and what is read:
//
//	go test ./state/statetest -run TestAnOldStoreReads -update
//
// Write the store again only as long as that version is not released. A later change of
// the shape of records or events adds a version; the older ones are kept as long as
// such stores must be readable.
//
//	v2  the owner record of a lease contains the hash of a secret
//	v3  schema 2 of events: see [thole.Schema]
var update = flag.Bool("update", false, "write the golden store of this version anew")

var (
	goldens = []string{"testdata/v1", "testdata/v2", "testdata/v3"}
	newest  = goldens[len(goldens)-1]
)

var goldenTime = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

func openGolden(t *testing.T, b journal.Backend) *thole.Space {
	t.Helper()
	s, err := thole.Open(t.Context(), b, &thole.Options{Concepts: all.Concepts(), Now: func() time.Time { return goldenTime }, Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.Space("project:golden")
}

func openFile(t *testing.T, path string) *thole.Space {
	t.Helper()
	b, err := sqlitestore.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return openGolden(t, b)
}

func TestAnOldStoreReads(t *testing.T) {
	if *update {
		os.Remove(newest + ".db")
		sp := openFile(t, newest+".db")
		write(t, sp)
		if err := sp.Store().Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, golden := range goldens {
		got := readAll(t, openFile(t, copied(t, golden)))
		if *update {
			if err := os.WriteFile(golden+".json", got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("the content read from %s.db differs:\n%s", golden, udiff.Unified("then", "now", string(want), string(got)))
		}
	}
}

// The newest golden store has the shapes that the concepts write today. A different
// shape needs a test that the old one is still read, and the golden store of a new
// version.
func TestRecordsAndEventsKeepTheirShape(t *testing.T) {
	sp := openGolden(t, memstore.New())
	write(t, sp)
	want, got := shapes(t, openFile(t, copied(t, newest))), shapes(t, sp)
	if want != got {
		t.Errorf("shapes differ:\n%s", udiff.Unified("then", "now", want, got))
	}
}

// copied returns the path of a copy of a golden store.
func copied(t *testing.T, golden string) string {
	t.Helper()
	data, err := os.ReadFile(golden + ".db")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "golden.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// readAll returns what the concepts read, as JSON.
func readAll(t *testing.T, sp *thole.Space) []byte {
	t.Helper()
	ctx, all := t.Context(), map[string]any{}
	read := func(name string) func(v any, err error) {
		return func(v any, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			all[name] = v
		}
	}
	threads, runs := thread.In(sp), run.In(sp, nil)
	list, err := threads.List(ctx, nil)
	read("threads")(list, err)
	for _, entry := range list.Items {
		read("thread")(threads.Get(ctx, entry.ID))
		read("turns")(threads.Turns(ctx, entry.ID, nil))
		read("messages")(threads.Messages(ctx, entry.ID, nil))
		read("runs")(runs.List(ctx, entry.ID, nil))
		read("todos")(todo.In(sp).List(ctx, entry.ID))
	}
	docs, values, files := document.In(sp), kv.In(sp), file.In(sp)
	read("documents")(docs.List(ctx, nil))
	read("settings")(docs.Get(ctx, "settings", nil))
	read("kv")(values.List(ctx, "a/b", nil))
	read("locks")(lock.In(sp).List(ctx, nil))
	read("decisions")(decision.In(sp).List(ctx, nil))
	read("index")(decision.In(sp).Index(ctx, nil))
	read("files")(files.List(ctx, nil))
	read("history")(files.History(ctx, "src/app.ts", nil))
	out, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// shapes lists the fields of each kind of record and event with their types.
func shapes(t *testing.T, sp *thole.Space) string {
	t.Helper()
	found := map[string]bool{}
	records, err := sp.List(t.Context(), thole.ListQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		addShape(found, fmt.Sprintf("record %s (schema %d, notify %v, expires %v)", nameless(r.Key), r.Schema, r.Notify, !r.Expires.IsZero()), r.Value)
	}
	page, err := sp.Read(t.Context(), thole.ReadQuery{})
	if err != nil || !page.Next.IsZero() {
		t.Fatalf("read: %v, more at %v", err, page.Next)
	}
	for _, e := range page.Events {
		addShape(found, fmt.Sprintf("event %s in %s (schema %d, subject %v, %d refs)", e.Type, nameless(e.Stream), e.Schema, e.Subject != "", len(e.Refs)), e.Data)
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), "\n") + "\n"
}

// Ids differ each time.
var ids = regexp.MustCompile(`[0-9a-f]{32,64}`)

func nameless(s string) string { return ids.ReplaceAllString(s, "*") }

func addShape(found map[string]bool, path string, data json.RawMessage) {
	var v any
	if len(data) > 0 && json.Unmarshal(data, &v) != nil {
		found[path+": no JSON"] = true
		return
	}
	walk(found, path, v)
}

func walk(found map[string]bool, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, part := range v {
			walk(found, path+" ."+nameless(key), part)
		}
		if len(v) == 0 {
			found[path+": object"] = true
		}
	case []any:
		for _, part := range v {
			walk(found, path+"[]", part)
		}
		if len(v) == 0 {
			found[path+": list"] = true
		}
	default:
		found[fmt.Sprintf("%s: %T", path, v)] = true
	}
}
