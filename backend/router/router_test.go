package router_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/backendtest"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/router"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func route(t testing.TB, rules ...router.Rule) journal.Backend {
	t.Helper()
	b, err := router.New(rules...)
	if err != nil {
		t.Fatalf("router: %v", err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func overMemory(t testing.TB) backendtest.Harness {
	return backendtest.Harness{
		Backend: route(t, router.Rule{Pattern: "user:*", Backend: memstore.New()}, router.Rule{Pattern: "*", Backend: memstore.New()}),
		Lacks:   []backendtest.Ability{backendtest.Hints, backendtest.Broadcasts, backendtest.Reopening, backendtest.Seconds},
	}
}

// overSQLite returns a router over two files.
func overSQLite(t testing.TB) backendtest.Harness {
	dir := t.TempDir()
	open := func(t testing.TB) journal.Backend {
		var rules []router.Rule
		for _, r := range []struct{ pattern, file string }{{"project:*", "projects.db"}, {"*", "others.db"}} {
			b, err := sqlitestore.Open(context.Background(), filepath.Join(dir, r.file), nil)
			if err != nil {
				t.Fatalf("open %s: %v", r.file, err)
			}
			rules = append(rules, router.Rule{Pattern: r.pattern, Backend: b})
		}
		return route(t, rules...)
	}
	b := open(t)
	return backendtest.Harness{
		Backend: b,
		Reopen: func(t testing.TB) journal.Backend {
			b.Close()
			b = open(t)
			return b
		},
		Second: func(t testing.TB) journal.Backend { return open(t) },
		Lacks:  []backendtest.Ability{backendtest.Broadcasts},
	}
}

func TestARouterOverMemoryKeepsTheContractOfBackends(t *testing.T) { backendtest.Run(t, overMemory) }
func TestARouterOverSQLiteKeepsTheContractOfBackends(t *testing.T) { backendtest.Run(t, overSQLite) }

func TestARouterBehavesAsTheModel(t *testing.T) {
	effort.SlowUnderRace(t)
	backendtest.Model(t, overSQLite, 0)
}

func TestWhatBreaksTheContractIsRejectedThroughARouter(t *testing.T) {
	effort.SoakOnly(t)
	backendtest.RejectBroken(t, overSQLite)
}

func commitTo(spaces ...string) []journal.Commit {
	var batch []journal.Commit
	for _, space := range spaces {
		batch = append(batch, journal.Commit{
			Space: space, Now: time.Now(), Actor: "system",
			Events: []journal.Event{{Stream: "s", Type: "a.b", Data: []byte(`"` + space + `"`)}},
		})
	}
	return batch
}

func TestTheFirstRuleThatMatchesASpaceDecides(t *testing.T) {
	shop, projects, rest := memstore.New(), memstore.New(), memstore.New()
	b := route(t, router.Rule{Pattern: "project:shop", Backend: shop}, router.Rule{Pattern: "project:*", Backend: projects}, router.Rule{Pattern: "*", Backend: rest})
	names := []string{"user:b", "project:shop", "project:a", "global", "project:shop", "project:shopping"}
	results, err := b.Commit(t.Context(), commitTo(names...))
	if err != nil {
		t.Fatal(err)
	}
	for i, seq := range []uint64{1, 1, 1, 1, 2, 1} {
		if results[i].Last.Seq != seq {
			t.Errorf("commit %d to %s: seq %d, want %d", i, names[i], results[i].Last.Seq, seq)
		}
	}
	for _, tt := range []struct {
		in   journal.Backend
		want []string
	}{{shop, []string{"project:shop"}}, {projects, []string{"project:a", "project:shopping"}}, {rest, []string{"global", "user:b"}},
		{b, []string{"global", "project:a", "project:shop", "project:shopping", "user:b"}}} {
		if got, err := tt.in.Spaces(t.Context(), journal.SpacesQuery{}); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("spaces: got %q, %v; want %q", got, err, tt.want)
		}
	}
	heads, err := b.Heads(t.Context(), "user:b", "project:shop", "user:none")
	if err != nil || heads[0].Last.Seq != 1 || heads[1].Last.Seq != 2 || !heads[2].Last.IsZero() || heads[1].Space != "project:shop" {
		t.Errorf("heads: got %v, %v", heads, err)
	}
}

func TestASpaceThatNoRuleNamesIsRefusedWithTheRules(t *testing.T) {
	users, projects := memstore.New(), memstore.New()
	b := route(t, router.Rule{Pattern: "user:*", Backend: users}, router.Rule{Pattern: "project:*", Backend: projects})
	_, read := b.Read(t.Context(), "org:x", journal.ReadQuery{})
	_, get := b.Get(t.Context(), "org:x", "k")
	_, list := b.List(t.Context(), "org:x", journal.ListQuery{})
	_, heads := b.Heads(t.Context(), "user:1", "org:x")
	refused, err := b.Commit(t.Context(), commitTo("org:x", "org:y"))
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"read": read, "get": get, "list": list, "heads": heads, "commit": refused[0].Err,
		"load": b.Load(t.Context(), "org:x", journal.Chunk{}), "purge": b.Purge(t.Context(), "org:x", journal.Purge{All: true}),
	} {
		if !errors.Is(err, journal.ErrInvalid) || !strings.Contains(err.Error(), "user:*, project:*") || !strings.Contains(err.Error(), "org:x") {
			t.Errorf("%s: got %v, want ErrInvalid that names the space and the rules", name, err)
		}
	}
	if got, err := b.Spaces(t.Context(), journal.SpacesQuery{}); err != nil || len(got) > 0 {
		t.Errorf("after a refused batch: spaces %q, %v; want none", got, err)
	}
	if _, err := b.Commit(t.Context(), commitTo("global")); err != nil {
		t.Errorf("commit to global: %v, want it in the first store", err)
	}
	if got, err := users.Spaces(t.Context(), journal.SpacesQuery{}); err != nil || !slices.Equal(got, []string{"global"}) {
		t.Errorf("spaces of the first store: %q, %v; want global", got, err)
	}
}

func TestACommitToASpaceWithoutARuleFailsNoNeighbour(t *testing.T) {
	b := route(t, router.Rule{Pattern: "user:*", Backend: memstore.New()}, router.Rule{Pattern: "project:*", Backend: memstore.New()})
	for _, names := range [][]string{{"user:1", "org:x", "user:1"}, {"org:x", "project:a", "user:1", "org:x", "user:2"}} {
		results, err := b.Commit(t.Context(), commitTo(names...))
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if homeless := names[i] == "org:x"; homeless != errors.Is(r.Err, journal.ErrInvalid) || homeless != r.Last.IsZero() {
				t.Errorf("%q: commit %d to %s: got %v, %v", names, i, names[i], r.Last, r.Err)
			}
		}
	}
	if got, err := b.Spaces(t.Context(), journal.SpacesQuery{}); err != nil || !slices.Equal(got, []string{"project:a", "user:1", "user:2"}) {
		t.Errorf("spaces: got %q, %v", got, err)
	}
}

func TestABackendThatFailsFailsOnlyItsOwnCommits(t *testing.T) {
	dying := &mortal{Backend: memstore.New()}
	b := route(t, router.Rule{Pattern: "user:*", Backend: dying}, router.Rule{Pattern: "*", Backend: memstore.New()})
	dying.dead.Store(true)
	results, err := b.Commit(t.Context(), commitTo("user:1", "project:a", "user:2"))
	if err != nil {
		t.Fatal(err)
	}
	for i, dead := range []bool{true, false, true} {
		if r := results[i]; dead != errors.Is(r.Err, errDead) || dead != r.Last.IsZero() {
			t.Errorf("commit %d: got %v, %v; want an error: %v", i, r.Last, r.Err, dead)
		}
	}
	b.Close()
	if _, err := b.Commit(t.Context(), commitTo("project:a", "org:x")); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("after Close: got %v, want ErrClosed", err)
	}
}

// gated lets one batch pass for each value that is sent to the gate.
type gated struct {
	journal.Backend
	gate chan struct{}
}

func (g gated) Commit(ctx context.Context, batch []journal.Commit) ([]journal.Result, error) {
	<-g.gate
	return g.Backend.Commit(ctx, batch)
}

func TestCommitsOfOthersDoNotHearOfASpaceWithoutARule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gated{memstore.New(), make(chan struct{})}
		b, err := router.New(router.Rule{Pattern: "project:*", Backend: g})
		if err != nil {
			t.Fatal(err)
		}
		s, err := thole.Open(t.Context(), b, &thole.Options{Sweep: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		names := []string{"project:first", "project:a", "user:42", "project:b"}
		errs := make([]error, len(names))
		var wg sync.WaitGroup
		for i, name := range names {
			wg.Go(func() {
				_, errs[i] = s.Space(name).Commit(t.Context(), journal.Commit{Events: commitTo(name)[0].Events})
			})
			synctest.Wait() // the first is in the backend, the others wait for it
		}
		close(g.gate)
		wg.Wait()
		for i, err := range errs {
			if homeless := names[i] == "user:42"; homeless != errors.Is(err, journal.ErrInvalid) || !homeless && err != nil {
				t.Errorf("%s: got %v", names[i], err)
			}
		}
	})
}

func TestWhatLiesWhereTheRulesDoNotLookIsHidden(t *testing.T) {
	users, projects := memstore.New(), memstore.New()
	var stale []string
	for i := range 25 {
		stale = append(stale, "project:old"+string(rune('a'+i)))
	}
	if _, err := users.Commit(t.Context(), commitTo(append(stale, "user:1", "user:2")...)); err != nil {
		t.Fatal(err)
	}
	b := route(t, router.Rule{Pattern: "user:*", Backend: users}, router.Rule{Pattern: "*", Backend: projects})
	if _, err := b.Commit(t.Context(), commitTo("project:new")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for q := (journal.SpacesQuery{Limit: 2}); ; {
		page, err := b.Spaces(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page...)
		if len(page) < q.Limit {
			break
		}
		q.After = page[len(page)-1]
	}
	if want := []string{"project:new", "user:1", "user:2"}; !slices.Equal(got, want) {
		t.Errorf("spaces: got %q, want %q", got, want)
	}
}

func TestRulesThatCannotHoldAreRefused(t *testing.T) {
	for _, patterns := range [][]string{
		{}, {""}, {"user"}, {"user:"}, {":x"}, {"us*"}, {"*:x"}, {"user:a*"}, {"user:**"},
		{"user:*", "user:1"}, {"*", "user:*"}, {"user:*", "user:*"}, {"*", "global"},
	} {
		var rules []router.Rule
		for _, p := range patterns {
			rules = append(rules, router.Rule{Pattern: p, Backend: memstore.New()})
		}
		if _, err := router.New(rules...); !errors.Is(err, journal.ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", patterns, err)
		}
	}
}

// graded is a backend with a given durability.
type graded struct {
	journal.Backend
	grade journal.Durability
}

func (g graded) Capabilities() journal.Capabilities { return journal.Capabilities{Durability: g.grade} }

func TestTheWeakestDurabilityIsDeclared(t *testing.T) {
	sync := graded{memstore.New(), journal.Sync}
	b := route(t, router.Rule{Pattern: "user:*", Backend: sync}, router.Rule{Pattern: "*", Backend: graded{memstore.New(), journal.Replicated}})
	if got := b.Capabilities().Durability; got != journal.Replicated {
		t.Errorf("got %q, want replicated", got)
	}
}

// A Store commits to two backends, one of which is closed.
func TestAFailingStoreFailsNoOther(t *testing.T) {
	good, bad := memstore.New(), memstore.New()
	b := route(t, router.Rule{Pattern: "user:*", Backend: good}, router.Rule{Pattern: "project:*", Backend: bad})
	s, err := thole.Open(t.Context(), b, &thole.Options{Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	bad.Close()
	event := journal.Commit{Events: []journal.Event{{Stream: "s", Type: "a.b"}}}
	failed := make(chan error, 50)
	for range cap(failed) {
		go func() {
			_, err := s.Space("project:a").Commit(t.Context(), event)
			failed <- err
		}()
		if _, err := s.Space("user:1").Commit(t.Context(), event); err != nil {
			t.Fatalf("commit to the good store: %v", err)
		}
	}
	for range cap(failed) {
		if err := <-failed; !errors.Is(err, journal.ErrClosed) {
			t.Errorf("commit to the bad store: got %v, want its error", err)
		}
	}
}

// carrier is a backend that passes broadcasts to itself.
type carrier struct {
	journal.Backend
	broadcasts chan journal.Broadcast
}

func (c carrier) Capabilities() journal.Capabilities {
	return journal.Capabilities{Durability: journal.None, SendBroadcasts: c.send, ReceiveBroadcasts: c.receive}
}

func (c carrier) send(_ context.Context, broadcasts []journal.Broadcast) error {
	for _, s := range broadcasts {
		c.broadcasts <- s
	}
	return nil
}

func (c carrier) receive(ctx context.Context, hear func(journal.Broadcast)) error {
	for {
		select {
		case s := <-c.broadcasts:
			hear(s)
		case <-ctx.Done():
			return nil
		}
	}
}

func TestBroadcastsGoThroughTheStoreOfTheirSpace(t *testing.T) {
	users, others := carrier{memstore.New(), make(chan journal.Broadcast, 1)}, memstore.New()
	b := route(t, router.Rule{Pattern: "user:*", Backend: users}, router.Rule{Pattern: "project:*", Backend: others})
	can := b.Capabilities()
	if err := can.SendBroadcasts(t.Context(), []journal.Broadcast{{Space: "org:x"}, {Space: "project:a"}, {Space: "user:1"}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	heard := ""
	if err := can.ReceiveBroadcasts(ctx, func(s journal.Broadcast) { heard += s.Space; cancel() }); err != nil || heard != "user:1" {
		t.Errorf("receive: heard %q, %v; want the broadcast of user:1", heard, err)
	}
}

// stopping is a backend whose disk fails on demand.
type stopping struct {
	journal.Backend
	failed chan error
}

func (s stopping) Capabilities() journal.Capabilities {
	return journal.Capabilities{Durability: journal.None, Stopped: func(ctx context.Context) error {
		select {
		case err := <-s.failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}}
}

func TestStoppedReturnsForTheFirstOfSeveralStores(t *testing.T) {
	a, b := stopping{memstore.New(), make(chan error, 1)}, stopping{memstore.New(), make(chan error, 1)}
	all := route(t, router.Rule{Pattern: "user:*", Backend: a}, router.Rule{Pattern: "project:*", Backend: b}, router.Rule{Pattern: "*", Backend: memstore.New()})
	why := errors.New("its disk failed")
	b.failed <- why
	if err := all.Capabilities().Stopped(t.Context()); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if plain := route(t, router.Rule{Pattern: "*", Backend: memstore.New()}); plain.Capabilities().Stopped != nil {
		t.Error("stores that never stop claim that they might")
	}
}
