package file_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/look"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/statetest"
)

func TestMain(m *testing.M) { statetest.Main(m) }

func hash(s string) string { return file.Hash([]byte(s)) }

func TestAnEditOfOldContentIsRefusedAndSaysWhatIsThere(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		a, b := file.In(sp.As("agent:a")), file.In(sp.As("agent:b"))
		if got, err := a.Get(ctx, "src/app.ts"); err != nil || got.Known {
			t.Errorf("at first: got %+v, %v; want unknown", got, err)
		}
		// The file is not known yet, so its first edit is accepted.
		if _, err := a.Changed(ctx, "src/app.ts", hash("0"), hash("1"), nil); err != nil {
			t.Fatal(err)
		}
		var stale *file.StaleError
		_, err := b.Changed(ctx, "src/app.ts", hash("0"), hash("2"), nil)
		if !errors.As(err, &stale) || !errors.Is(err, thole.ErrConflict) || stale.Now.Hash != hash("1") || stale.Now.Actor != "agent:a" {
			t.Errorf("edit of old content: got %v, want to hear of agent:a's", err)
		}
		if err := b.Conflict(ctx, file.Conflict{Path: "src/app.ts", Base: hash("0"), Ours: hash("2"), Theirs: hash("1"), Rejected: json.RawMessage(`["line"]`)}); err != nil {
			t.Error(err)
		}
		if _, err := b.Changed(ctx, "src/app.ts", hash("1"), hash("12"), nil); err != nil {
			t.Errorf("edit of current content: %v", err)
		}
		got, err := a.Get(ctx, "src/app.ts")
		if err != nil || got.Hash != hash("12") || got.Actor != "agent:b" {
			t.Errorf("got %+v, %v", got, err)
		}
		var types []string
		for ev, err := range sp.Events(ctx, thole.ReadQuery{Stream: file.Stream}) {
			if err != nil {
				t.Fatal(err)
			}
			types = append(types, ev.Type)
		}
		if got, want := fmt.Sprint(types), "[file.changed file.conflict file.changed]"; got != want {
			t.Errorf("events: got %s, want %s", got, want)
		}
	})
}

func TestOfEditsOfOneContentOneWins(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		files, ctx := file.In(e.Space("project:shop")), t.Context()
		var mu sync.Mutex
		var wg sync.WaitGroup
		won := 0
		for i := range 16 {
			wg.Go(func() {
				_, err := files.Changed(ctx, "f", "", hash(fmt.Sprint(i)), nil)
				if err == nil {
					mu.Lock()
					won++
					mu.Unlock()
				} else if !errors.Is(err, thole.ErrConflict) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won != 1 {
			t.Errorf("%d won, want 1", won)
		}
	})
}

func TestWhatSomeoneDidWithoutTellingIsRecorded(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		files, ctx := file.In(e.Space("project:shop").As("agent:a")), t.Context()
		steps := []func() (file.File, error){
			func() (file.File, error) { return files.Changed(ctx, "f", "", hash("1"), nil) },
			func() (file.File, error) { return files.Found(ctx, "f", hash("2")) },
			func() (file.File, error) { return files.Found(ctx, "f", hash("2")) }, // nothing changed
			func() (file.File, error) { return files.Changed(ctx, "f", hash("2"), "", nil) },
		}
		for i, step := range steps {
			if _, err := step(); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
		h, err := files.History(ctx, "f", nil)
		if err != nil || len(h.Items) != 3 {
			t.Fatalf("got %+v, %v; want 3 changes", h, err)
		}
		if got := h.Items[1]; got.Actor != file.Outside || got.Before != hash("1") || got.After != hash("2") || !got.Found {
			t.Errorf("the change that was found: got %+v", got)
		}
		if got := h.Items[0]; got.After != "" || got.Before != hash("2") {
			t.Errorf("the removal: got %+v", got)
		}
	})
}

func TestAFilesHistoryIsItsOwnAndComplete(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		files, ctx := file.In(e.Space("project:shop")), t.Context()
		before := ""
		for i := range 25 {
			after := hash(fmt.Sprint(i))
			for _, path := range []string{"a", "b/ü.go"} {
				if _, err := files.Changed(ctx, path, before, after, nil); err != nil {
					t.Fatal(err)
				}
			}
			before = after
		}
		want := 24
		for opts := (file.HistoryOptions{Limit: 10}); ; {
			h, err := files.History(ctx, "b/ü.go", &opts)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range h.Items {
				if entry.Path != "b/ü.go" || entry.After != hash(fmt.Sprint(want)) {
					t.Fatalf("got %+v, want change %d", entry, want)
				}
				want--
			}
			if opts.Cursor = h.Next; h.Next == "" {
				break
			}
		}
		if want != -1 {
			t.Errorf("%d changes are missing", want+1)
		}
		page, err := files.List(ctx, &file.ListOptions{Limit: 1})
		if err != nil || len(page.Items) != 1 || page.Items[0].Path != "a" || page.Next != "a" {
			t.Errorf("list: got %+v, %v", page, err)
		}
		page, err = files.List(ctx, &file.ListOptions{After: page.Next})
		if err != nil || len(page.Items) != 1 || page.Items[0].Path != "b/ü.go" || page.Next != "" {
			t.Errorf("the rest of the list: got %+v, %v", page, err)
		}
	})
}

// reads counts the events that a backend returns.
type reads struct {
	journal.Backend
	events atomic.Int64
}

func (r *reads) Read(ctx context.Context, space string, q thole.ReadQuery) (thole.Page, error) {
	p, err := r.Backend.Read(ctx, space, q)
	r.events.Add(int64(len(p.Events)))
	return p, err
}

// Of the file's three changes the second is erased, and thousands of other files' are
// between it and the first.
func TestAPageOfAHistoryReadsABoundedPartOfTheJournal(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		var read *reads
		e.Wrap = func(b journal.Backend) journal.Backend { read = &reads{Backend: b}; return read }
		e.Reopen()
		sp, ctx := e.Space("project:shop").For(file.Name), t.Context()
		files := file.In(sp)
		found := func(content string) file.File {
			t.Helper()
			f, err := files.Found(ctx, "f", hash(content))
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		found("1")
		for range 2*look.MaxItems/200 + 1 {
			_, err := sp.Update(ctx, func(tx *thole.Tx) error {
				for range 200 {
					tx.Emit(file.Stream, file.TypeChanged, file.Change{Path: "other", After: hash("x")})
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		erased, last := found("2"), found("3")
		if err := sp.Purge(ctx, thole.Purge{Events: []thole.Position{erased.Version}}); err != nil {
			t.Fatal(err)
		}
		history := func(path, cursor string) (got []string) {
			t.Helper()
			for {
				read.events.Store(0)
				h, err := files.History(ctx, path, &file.HistoryOptions{Cursor: cursor})
				if err != nil {
					t.Fatal(err)
				}
				if n := read.events.Load(); n > look.MaxItems+look.MaxPage {
					t.Errorf("%s after %q: one page reads %d events", path, cursor, n)
				}
				for _, entry := range h.Items {
					got = append(got, entry.After)
				}
				if cursor = h.Next; cursor == "" {
					return got
				}
			}
		}
		if got, want := history("f", ""), []string{hash("3"), hash("1")}; !slices.Equal(got, want) {
			t.Errorf("got %q, want the changes that are left, %q", got, want)
		}
		for _, cursor := range []string{"", last.Version.String()} {
			if got := history("unknown", cursor); len(got) > 0 || read.events.Load() > 0 {
				t.Errorf("an unknown file: got %q after %d events, want nothing of none", got, read.events.Load())
			}
		}
	})
}

func TestContentsAreKeptForUndo(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		files := file.In(sp)
		_, err := files.Changed(ctx, "f", hash("old"), hash("new"), &file.Contents{Before: []byte("old"), After: []byte("new")})
		if err != nil {
			t.Fatal(err)
		}
		h, err := files.History(ctx, "f", nil)
		if err != nil || len(h.Items) != 1 || !h.Items[0].Kept {
			t.Fatalf("got %+v, %v; want a change with contents", h, err)
		}
		r, err := sp.OpenBlob(ctx, h.Items[0].Before)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if got, err := io.ReadAll(r); err != nil || string(got) != "old" {
			t.Errorf("got %q, %v; want the old content", got, err)
		}
		_, err = files.Changed(ctx, "f", hash("new"), hash("newer"), &file.Contents{Before: []byte("new"), After: []byte("other")})
		if !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("content with another hash: got %v, want ErrInvalid", err)
		}
	})
}

func TestBadPathsAndHashesAreNamed(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		files, ctx := file.In(e.Space("project:shop")), t.Context()
		for path, want := range map[string]error{
			"": thole.ErrInvalid, ".": thole.ErrInvalid, "/etc/passwd": thole.ErrInvalid, "a/../../b": thole.ErrInvalid,
			"a//b": thole.ErrInvalid, "\xff": thole.ErrInvalid, strings.Repeat("x", 10_000): thole.ErrTooLarge,
		} {
			if _, err := files.Changed(ctx, path, "", hash("1"), nil); !errors.Is(err, want) {
				t.Errorf("%.20q: got %v, want %v", path, err, want)
			}
		}
		for _, bad := range []string{"1", strings.ToUpper(hash("1")), hash("1") + "00"} {
			if _, err := files.Changed(ctx, "f", "", bad, nil); !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("hash %q: got %v, want ErrInvalid", bad, err)
			}
		}
	})
}
