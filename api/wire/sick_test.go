package wire_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/router"
	"github.com/thole-dev/thole/journal"
)

// withSick opens a file store in which project:sick is damaged and project:good is not.
// Both have a record that expires.
func withSick(t *testing.T) journal.Backend {
	t.Helper()
	dir := t.TempDir()
	open := func() journal.Backend {
		b, err := filestore.Open(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := open()
	for _, name := range []string{"project:sick", "project:good"} {
		for range 3 {
			c := commitTo(name)
			c.Writes = []journal.Write{{Key: "app/x", Value: []byte(`"valuable"`), Expires: time.Now().Add(time.Hour)}}
			if _, err := b.Commit(t.Context(), []journal.Commit{c}); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.Close()
	damage(t, dir)
	return open()
}

// damage damages the journal of project:sick.
func damage(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "project", "sick", "journal", "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], bytes.Replace(text, []byte("valuable"), []byte("valuableXX"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

func commitTo(space string) journal.Commit {
	return journal.Commit{Space: space, Now: time.Now(), Events: []journal.Event{{Stream: "app/s", Type: "a.b", Data: []byte("1")}}}
}

func TestASpaceThatCannotTakeItsCommitsFailsNoOther(t *testing.T) {
	batch := []journal.Commit{commitTo("project:good"), commitTo("project:sick"), commitTo("project:good"), commitTo("project:sick"), commitTo("project:new")}
	for name, open := range map[string]func(t *testing.T) journal.Backend{
		"the engine": withSick,
		"a router": func(t *testing.T) journal.Backend {
			b, err := router.New(router.Rule{Pattern: "project:*", Backend: withSick(t)}, router.Rule{Pattern: "*", Backend: memstore.New()})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		"a server": func(t *testing.T) journal.Backend { return dial(t, serve(t, withSick(t)).URL, nil) },
		"a server's server": func(t *testing.T) journal.Backend {
			return dial(t, serve(t, dial(t, serve(t, withSick(t)).URL, nil)).URL, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			defer b.Close()
			results, err := b.Commit(t.Context(), batch)
			if err != nil {
				t.Fatalf("got %v, want a result for each commit", err)
			}
			for i, r := range results {
				sick := batch[i].Space == "project:sick"
				if sick != errors.Is(r.Err, journal.ErrCorrupt) || sick != r.Last.IsZero() || r.Conflict != nil {
					t.Errorf("commit %d to %s: got %+v", i, batch[i].Space, r)
				}
			}
			if page, err := b.Read(t.Context(), "project:good", journal.ReadQuery{}); err != nil || len(page.Events) != 5 {
				t.Errorf("the good space has %d events, %v; want 5", len(page.Events), err)
			}
		})
	}
}

func TestCommitsOfOthersDoNotHearOfASpaceThatIsDamaged(t *testing.T) {
	for _, through := range []string{"the engine", "a server"} {
		t.Run(through, func(t *testing.T) {
			s := serve(t, withSick(t)).store
			if through == "a server" {
				s = serve(t, dial(t, serve(t, withSick(t)).URL, nil)).store
			}
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 20 {
						if _, err := s.Space("project:sick").Commit(t.Context(), journal.Commit{Events: commitTo("").Events}); !errors.Is(err, journal.ErrCorrupt) {
							t.Errorf("the sick space: got %v, want ErrCorrupt", err)
						}
					}
				})
				wg.Go(func() {
					for range 20 {
						if _, err := s.Space("project:good").Commit(t.Context(), journal.Commit{Events: commitTo("").Events}); err != nil {
							t.Errorf("the good space: got %v; it names the other: %v", err, strings.Contains(err.Error(), "sick"))
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// Watchers of other spaces receive another process's commits, and watchers of the
// damaged one get an error.
func TestADamagedSpaceKeepsNoWatcherOfOthersInTheDark(t *testing.T) {
	dir := t.TempDir()
	open := func() *thole.Store {
		b, err := filestore.Open(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := thole.Open(t.Context(), b, &thole.Options{Poll: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	ours, theirs := open(), open()
	watches := make(map[string]*thole.Watch)
	for _, name := range []string{"project:a", "project:sick", "project:z"} {
		c := journal.Commit{Events: []journal.Event{{Stream: "app/s", Type: "a.b", Data: []byte(`"valuable"`)}}}
		for range 3 {
			if _, err := ours.Space(name).Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		w, err := ours.Space(name).Watch(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		watches[name] = w
	}
	damage(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := watches["project:sick"].Next(ctx); !errors.Is(err, journal.ErrCorrupt) {
		t.Errorf("a watch of the damaged space: got %v, want ErrCorrupt", err)
	}
	for _, name := range []string{"project:a", "project:z"} {
		if _, err := theirs.Space(name).Commit(t.Context(), journal.Commit{Events: commitTo("").Events}); err != nil {
			t.Fatal(err)
		}
		if _, err := watches[name].Next(ctx); err != nil {
			t.Errorf("a watch of %s: %v", name, err)
		}
	}
	heads, err := ours.Heads(t.Context(), "project:a", "project:sick", "project:z", "project:new")
	var away *journal.UnreachableError
	if !errors.As(err, &away) || !slices.Equal(away.Patterns(), []string{"project:sick"}) {
		t.Errorf("heads: got %v, want all but that of project:sick", err)
	}
	if len(heads) != 4 || heads[0].Last.Seq != 4 || heads[2].Last.Seq != 4 || heads[1].Space != "" {
		t.Errorf("heads: got %v", heads)
	}
}
