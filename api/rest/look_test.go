package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/look"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/thread"
)

// counting is a store that counts what is read from it.
type counting struct {
	journal.Backend
	mu           sync.Mutex
	items, bytes int // in all
	atOnce       int // the most bytes of one read
	gets         int
}

func (b *counting) took(items, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items, b.bytes, b.atOnce = b.items+items, b.bytes+bytes, max(b.atOnce, bytes)
}

func (b *counting) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items, b.bytes, b.atOnce, b.gets = 0, 0, 0, 0
}

func (b *counting) records(recs []thole.Record) {
	bytes := 0
	for _, r := range recs {
		bytes += len(r.Value)
	}
	b.took(len(recs), bytes)
}

func (b *counting) Get(ctx context.Context, space string, keys ...string) ([]thole.Record, error) {
	recs, err := b.Backend.Get(ctx, space, keys...)
	b.records(recs)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gets++
	return recs, err
}

func (b *counting) List(ctx context.Context, space string, q thole.ListQuery) ([]thole.Record, error) {
	recs, err := b.Backend.List(ctx, space, q)
	b.records(recs)
	return recs, err
}

func (b *counting) Read(ctx context.Context, space string, q thole.ReadQuery) (thole.Page, error) {
	p, err := b.Backend.Read(ctx, space, q)
	bytes := 0
	for _, e := range p.Events {
		bytes += len(e.Data)
	}
	b.took(len(p.Events), bytes)
	return p, err
}

// serveCounting returns a server and two callers that may write in project:a: the owner
// of a private thread, and a stranger.
func serveCounting(t *testing.T) (b *counting, sp *thole.Space, private, public string, stranger *server) {
	t.Helper()
	b = &counting{Backend: memstore.New()}
	store, err := thole.Open(t.Context(), b, &thole.Options{Concepts: rest.Concepts(), Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := serveStore(t, store, &rest.Options{Auth: auth.NewTokens(store)})
	grant := auth.Grant{Space: "project:a", Access: auth.Write}
	owner := s.as("user:1", grant)
	private = owner.createThread("project:a", `{"visibility":"private"}`)
	public = owner.createThread("project:a", `{}`)
	return b, store.Space("project:a").As("user:1"), private, public, s.as("user:2", grant)
}

// What is hidden costs each answer a bounded amount, and the cursor, which names none
// of it, leads to what follows it.
func TestWhatIsHiddenCostsAnAnswerABoundedAmount(t *testing.T) {
	effort.SlowUnderRace(t)
	for name, c := range map[string]struct{ hidden, size int }{
		"large": {150, 430_000},
		"many":  {5000, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b, sp, private, public, stranger := serveCounting(t)
			shown, secret := make(map[string]bool), make(map[string]bool)
			plan := func(in string, size int) {
				t.Helper()
				d, err := decision.In(sp).Plan(t.Context(), decision.Plan{Action: "act", Thread: in, Rationale: strings.Repeat("x", size)})
				if err != nil {
					t.Fatal(err)
				}
				if in == public {
					shown[d.ID] = true
				} else {
					secret[d.ID] = true
				}
			}
			plan(public, 1)
			for i := range c.hidden {
				plan(private, c.size)
				if i == c.hidden/10 {
					plan(public, 1)
				}
			}
			plan(public, 1)
			const space = "/v1/spaces/project:a"
			for _, path := range []string{
				space + "/events?types=decision.*", space + "/events?order=desc&types=decision.*", space + "/events?stream=decision&limit=1000",
				space + "/decisions?", space + "/decisions?limit=1000", space + "/decisions?incomplete=true", space + "/decisions?thread=" + public,
			} {
				if !strings.Contains(path, "limit") {
					path += "&limit=1"
				}
				seen := make(map[string]bool)
				cursor := ""
				for pages := 0; ; pages++ {
					b.reset()
					res := stranger.do("GET", path+after(cursor), nil)
					b.bounded(t, path, c.size)
					for id := range secret {
						if strings.Contains(string(res.body), id) {
							t.Fatalf("%s names a hidden decision: %.300s", path, res.body)
						}
					}
					var p struct {
						Items []struct {
							ID   string
							Data struct{ ID string }
						}
						Next string `json:"next_cursor"`
					}
					if err := json.Unmarshal(res.body, &p); err != nil || res.status != 200 || pages > 20 {
						t.Fatalf("%s: page %d: %d %.300s", path, pages, res.status, res.body)
					}
					for _, it := range p.Items {
						id := it.ID
						if !shown[id] {
							id = it.Data.ID
						}
						if !shown[id] || seen[id] {
							t.Errorf("%s: %q is shown, or shown twice", path, id)
						}
						seen[id] = true
					}
					if cursor = p.Next; cursor == "" {
						break
					}
				}
				if len(seen) != len(shown) {
					t.Errorf("%s: got %d, want %d", path, len(seen), len(shown))
				}
			}
			b.reset()
			var index decision.Index
			stranger.want(200, &index, "GET", space+"/decisions/index", nil)
			b.bounded(t, "the index", c.size)
			if len(index.Recent) == 0 || !shown[index.Recent[0].ID] {
				t.Errorf("the index has %v", index.Recent)
			}
		})
	}
}

// bounded checks what one request read, of items of about that size.
func (b *counting) bounded(t *testing.T, what string, size int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	page := look.MaxPage * (size + 1000)
	// Indexed decisions are read as an index entry and a record.
	if b.items > 2*look.MaxItems+1000 || b.bytes > look.MaxBytes+page || b.atOnce > page {
		t.Errorf("%s read %d items, %d bytes, %d at once", what, b.items, b.bytes, b.atOnce)
	}
}

// There can be any number of threads that the caller may not know.
func TestHiddenThreadsCostAnAnswerABoundedAmount(t *testing.T) {
	b, sp, private, public, stranger := serveCounting(t)
	secret := map[string]bool{private: true}
	for range 6000 {
		id, err := thread.In(sp).Create(t.Context(), &thread.CreateOptions{Visibility: thread.Private})
		if err != nil {
			t.Fatal(err)
		}
		secret[id.ID] = true
	}
	last := stranger.createThread("project:a", `{}`)
	var seen []string
	for cursor := ""; ; {
		var p struct {
			Items []struct{ ID string }
			Next  string `json:"next_cursor"`
		}
		b.reset()
		stranger.want(200, &p, "GET", "/v1/spaces/project:a/threads?limit=1"+after(cursor), nil)
		if b.items > look.MaxItems+1000 {
			t.Errorf("read %d items", b.items)
		}
		for _, it := range p.Items {
			seen = append(seen, it.ID)
		}
		if cursor = p.Next; cursor == "" {
			break
		}
		if secret[cursor] {
			t.Errorf("the cursor names a private thread")
		}
	}
	if want := fmt.Sprint([]string{public, last}); fmt.Sprint(seen) != want {
		t.Errorf("got %v, want %v", seen, want)
	}
}

// A text may name more ids than one answer looks up.
func TestFewIDsAreLookedUpToMaskATextOfMany(t *testing.T) {
	b, _, private, public, stranger := serveCounting(t)
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "run_%032x ", i)
	}
	text.WriteString("thrd_" + private[5:])
	b.reset()
	var made decision.Decision
	stranger.want(201, &made, "POST", "/v1/spaces/project:a/decisions", map[string]any{"action": "act", "thread": public, "rationale": text.String()})
	if b.gets > 1000 {
		t.Errorf("%d lookups", b.gets)
	}
	if last := fmt.Sprintf("run_%032x ", 4999); !strings.Contains(made.Rationale, last) {
		t.Errorf("an id that the request names and that was not looked up is masked")
	}
	b.reset()
	var got decision.Decision
	stranger.want(200, &got, "GET", "/v1/spaces/project:a/decisions/"+made.ID, nil)
	if b.gets > 1000 {
		t.Errorf("%d lookups", b.gets)
	}
	if want := strings.Repeat("run_"+strings.Repeat("0", 32)+" ", 5000) + "thrd_" + strings.Repeat("0", 32); got.Rationale != want {
		t.Errorf("an id that was not looked up is shown: %.200s…", got.Rationale)
	}
	if got.Thread != public {
		t.Errorf("the thread is %s, want %s", got.Thread, public)
	}
}
