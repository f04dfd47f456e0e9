// Package backendtest is the contract of [journal.Backend] as tests.
//
// A backend's own test opens it in an [Opener] and calls [Run] and [Model]:
//
//	func TestContract(t *testing.T) {
//		backendtest.Run(t, func(t testing.TB) backendtest.Harness {
//			return backendtest.Harness{Backend: memstore.New()}
//		})
//	}
//
// [RejectBroken] proves that the suite detects violations: it breaks a good backend in
// one line of the contract after the other and fails if a case still passes.
//
// The Store enforces the limits, so backends need only accept values up to them.
//
// Where the text of the contract is silent, the suite decides:
//
//   - A commit without events has a zero First.
//   - A stream's version is the position of its last kept event: trimming or
//     purging all of its events makes it absent.
//   - Purge.Before may be any position from Oldest, which changes nothing, to the
//     position after the head, which leaves no event.
//   - Redaction keeps the schema.
//   - A chunk of an import may be sent again, also after a reopen.
//   - A clean reopen does not begin an epoch.
//   - The callback wake may read from the backend.
package backendtest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole/journal"
)

// Opener opens a new, empty store, or fails t. The suite calls it at least once per
// case. An Opener stops what it started in t.Cleanup; the suite closes the Backend
// before that.
type Opener func(t testing.TB) Harness

// Harness is an open store and the ways to open its data again.
type Harness struct {
	Backend journal.Backend

	// Reopen closes everything that is open on the data and opens it again. Nil:
	// the data does not outlive Close, and cases continue with the open store.
	Reopen func(t testing.TB) journal.Backend

	// Second opens another instance on the same data while the first is open,
	// as another process would. Nil: only one process at a time can open it.
	Second func(t testing.TB) journal.Backend

	// Lacks declares the abilities that the harness lacks, so that no case is
	// absent unnoticed. It must list exactly these.
	Lacks []Ability
}

// Report counts what ran.
type Report struct {
	Backend string   // the type that was checked
	Cases   int      // cases that ran
	Checks  int      // comparisons in them
	Absent  []string // cases about an ability that the harness lacks
}

// testCase checks one promise of the contract.
type testCase struct {
	name string
	run  func(e *env)
}

// cases returns all cases by concern, cheap ones first.
func cases() []testCase {
	var all []testCase
	for _, concern := range [][]testCase{
		commitCases(), batchCases(), checkCases(), recordCases(), readCases(), cursorCases(),
		expiryCases(), spacesCases(), loadCases(), purgeCases(), keyCases(), limitCases(),
		concurrencyCases(), closeCases(), abilityCases(), reopenCases(), watchCases(), broadcastCases(), secondCases(),
	} {
		all = append(all, concern...)
	}
	return all
}

// Run runs every case as a subtest with its own store, and checks the backend's
// consistency after each. It returns how much was checked and logs it in a last line
// that begins with "matrix:". A case about an ability that the harness lacks does
// nothing and is reported as absent; the harness must declare the ability in Lacks. A
// case that is skipped in any other way fails. Nothing else may run in parallel, since
// Run checks for goroutines that are left.
func Run(t *testing.T, open Opener) Report {
	t.Helper()
	var report Report
	var checks atomic.Int64
	durability := journal.Sync
	watched := func(t testing.TB) Harness {
		h := open(t)
		report.Backend = typeOf(h.Backend)
		durability = h.Backend.Capabilities().Durability
		return h
	}
	skipped := 0
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			absent := false
			defer func() { // also after a Skip or a Fatal
				switch {
				case t.Skipped():
					skipped++
				case absent:
					report.Absent = append(report.Absent, c.name)
				default:
					report.Cases++
				}
			}()
			absent = runCase(t, c, watched, &checks, patience)
		})
	}
	report.Checks = int(checks.Load())
	if skipped > 0 && report.Cases == 0 {
		t.Skipf("all %d cases were skipped", skipped)
	}
	if skipped > 0 {
		t.Errorf("%d cases were skipped: only an ability that the harness declares to lack makes one absent", skipped)
	}
	t.Logf("absent cases: %q", report.Absent)
	t.Logf("matrix: %s, durability %s: %d cases, %d checks, %d absent",
		report.Backend, durability, report.Cases, report.Checks, len(report.Absent))
	return report
}

// runCase runs one case and the consistency check after it. It reports whether the
// case is absent.
func runCase(t testing.TB, c testCase, open Opener, checks *atomic.Int64, patience time.Duration) (absent bool) {
	t.Helper()
	e := newEnv(t, open(t), checks)
	e.patience = patience
	c.run(e)
	if !t.Failed() {
		e.verify()
	}
	return e.absent
}
