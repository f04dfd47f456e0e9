package metrics_test

import (
	"context"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/metrics"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAMeteredBackendCountsCommitsByOutcome(t *testing.T) {
	set := metrics.New()
	store, err := thole.Open(t.Context(), set.Backend(memstore.New()), &thole.Options{Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	sp := store.Space("project:a")
	c := thole.Commit{
		Checks: []thole.Check{{Key: "app/x"}},
		Writes: []thole.Write{{Key: "app/x", Value: []byte("1")}},
	}
	for range 3 { // the first is applied, the others find its receipt
		sp.Commit(t.Context(), c)
	}
	w := httptest.NewRecorder()
	set.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`thole_commits_total{outcome="applied"} 1`,
		`thole_commits_total{outcome="conflict"} 2`,
		"thole_batch_commits_count 3",
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

// hinting is a backend that gives hints.
type hinting struct{ *memstore.Store }

func (hinting) Capabilities() journal.Capabilities {
	return journal.Capabilities{
		Durability: journal.Replicated,
		Hints:      func(ctx context.Context, wake func(string)) error { <-ctx.Done(); return nil },
	}
}

func TestAMeteredBackendKeepsItsAbilities(t *testing.T) {
	set := metrics.New()
	with := set.Backend(hinting{memstore.New()})
	if with.Capabilities().Hints == nil {
		t.Error("a backend that hints hints no more")
	}
	if with.Capabilities().Durability != journal.Replicated {
		t.Error("a backend's durability is lost")
	}
	if set.Backend(memstore.New()).Capabilities().Hints != nil {
		t.Error("a backend without hints claims to hint")
	}
}

func TestEveryMetricIsInTheOperatorsTable(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	s := metrics.New()
	s.Request("GET /x", 200, time.Millisecond, false)
	b := s.Backend(memstore.New())
	defer b.Close()
	if _, err := b.Commit(t.Context(), []thole.Commit{{Space: "project:a", Writes: []thole.Write{{Key: "app/a", Value: []byte("1")}}}}); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	names := regexp.MustCompile(`(?m)^# TYPE (thole_\w+)`).FindAllStringSubmatch(w.Body.String(), -1)
	if len(names) == 0 {
		t.Fatalf("no metrics in %s", w.Body)
	}
	for _, name := range names {
		if !strings.Contains(string(doc), "`"+name[1]) {
			t.Errorf("docs/operations.md does not tell of %s", name[1])
		}
	}
}
