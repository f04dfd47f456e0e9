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
// [RejectBroken] proves that the suite is not empty words: it breaks a good
// backend in one line of the contract after the other and fails if a case
// still passes.
//
// The Store enforces the limits, so backends need only accept what is at them.
//
// Where the text of the contract is silent, the suite decides:
//
//   - A commit without events has a zero First.
//   - A stream's version is that of its last event that is kept: trimming or
//     purging all of them makes it absent.
//   - Purge.Before may be anything from Oldest, which changes nothing, to the
//     position after the head, which leaves no event.
//   - Redaction leaves the schema.
//   - A chunk of an import may be sent again, also after a reopen.
//   - A clean reopen begins no epoch.
//   - Whoever is woken may read from the backend before it returns from wake.
package backendtest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole/journal"
)

// Opener opens a fresh, empty store. It is called at least once per case and
// fails t when it cannot. What it starts it stops in t.Cleanup; the suite
// closes the Backend before that.
type Opener func(t testing.TB) Harness

// Harness is an open store and what can be done with it from outside.
type Harness struct {
	Backend journal.Backend

	// Reopen closes whatever is open on the data and opens it again. Nil: the
	// data does not outlive Close, and other cases go on with what is open.
	Reopen func(t testing.TB) journal.Backend

	// Second opens another instance on the same data while the first is open,
	// as another process would. Nil: one process at a time.
	Second func(t testing.TB) journal.Backend

	// Lacks declares which abilities the harness does not have, so that no case
	// goes absent unnoticed. It must say exactly what is so; empty: none is
	// lacking.
	Lacks []Ability
}

// Report counts what ran.
type Report struct {
	Backend string   // the type that was checked
	Cases   int      // promises looked at
	Checks  int      // comparisons made for them
	Absent  []string // cases about an ability that the harness does not have
}

// testCase is one promise of the contract.
type testCase struct {
	name string
	run  func(e *env)
}

// cases returns all promises, cheap ones first within each concern.
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

// Run runs every case as a subtest on a store of its own and reports how much
// was checked, last in one line that begins with "matrix:". After each case the
// backend's consistency is checked. A case about an ability that the harness
// lacks does nothing and is reported as absent; that it lacks it must be
// declared. So a backend's count is that of memstore and what that lacks, less
// what it declares; a case that is skipped all the same fails. Nothing else may
// run beside it, since it looks for goroutines that are left.
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

// runCase runs one case and the consistency check after it. It reports whether
// the case is about an ability that is absent.
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
