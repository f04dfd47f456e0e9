package backendtest

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheRecorderRemembersWhatATestDid(t *testing.T) {
	cleaned := 0
	cleanup := func() { cleaned++ }
	for name, do := range map[string]func(t testing.TB){
		"Errorf": func(t testing.TB) { t.Cleanup(cleanup); t.Errorf("got %d", 1) },
		"Fatalf": func(t testing.TB) { t.Cleanup(cleanup); t.Fatalf("got %d", 1); panic("not reached") },
		"cleanup": func(t testing.TB) {
			t.Cleanup(cleanup)
			t.Cleanup(func() { t.Fatal("got 1") })
		},
	} {
		r := record(t, do)
		if !r.failed || r.first != "got 1" || r.panicked != "" {
			t.Errorf("%s: got failed %v, %q, panic %q; want a failure", name, r.failed, r.first, r.panicked)
		}
	}
	if cleaned != 3 {
		t.Errorf("cleanups: got %d, want 3", cleaned)
	}
	if r := record(t, func(testing.TB) { panic("boom") }); !strings.HasPrefix(r.panicked, "boom") {
		t.Errorf("panic: got %q, want boom", r.panicked)
	}
	if r := record(t, func(t testing.TB) { t.Log("fine") }); r.failed || r.panicked != "" {
		t.Errorf("a test that passes: got failed %v, panic %q", r.failed, r.panicked)
	}
}

func TestEveryCaseHasItsOwnName(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range cases() {
		if seen[c.name] {
			t.Errorf("case %q: got it twice, want once", c.name)
		}
		seen[c.name] = true
	}
	names := map[string]bool{}
	for _, n := range weirdNames() {
		if names[n] || len(n) > 256 {
			t.Errorf("weird name %q: got it twice or too long", n)
		}
		names[n] = true
	}
}
