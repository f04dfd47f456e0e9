package backendtest

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole/journal"
)

// broken is a way to break one line of the contract, and the case that must
// notice.
type broken struct {
	name    string
	caught  string // name of the case
	harness func(t testing.TB, good Harness, open Opener) Harness
}

// brokenBackends lists them in the order of the contract.
func brokenBackends() []broken {
	return slices.Concat(brokenCommits(), brokenReads(), brokenKeeping(), brokenWatches(), brokenBroadcasts(), brokenInstances())
}

// littlePatience is the patience with backends that are known never to give a hint.
const littlePatience = 500 * time.Millisecond

// RejectBroken proves that the suite detects broken backends. For each line of the
// contract, it breaks the good backend of open, runs the case about that line, and
// fails t if the case passes. It reports how many broken backends were rejected. It
// counts a broken backend as absent if the harness lacks the ability that it breaks.
func RejectBroken(t *testing.T, open Opener) Report {
	t.Helper()
	byName := map[string]testCase{}
	for _, c := range cases() {
		byName[c.name] = c
	}
	var report Report
	for _, b := range brokenBackends() {
		t.Run(b.name, func(t *testing.T) {
			c, ok := byName[b.caught]
			if !ok {
				t.Fatalf("there is no case %q", b.caught)
			}
			absent := false
			r := record(t, func(t testing.TB) {
				var checks atomic.Int64
				absent = runCase(t, c, func(t testing.TB) Harness {
					good := open(t)
					report.Backend = typeOf(good.Backend)
					return b.harness(t, good, open)
				}, &checks, littlePatience)
			})
			if absent && !r.failed && r.panicked == "" {
				report.Absent = append(report.Absent, b.name)
				return
			}
			report.Cases++
			switch {
			case r.panicked != "":
				t.Errorf("case %q panics: %s", c.name, r.panicked)
			case !r.failed:
				t.Errorf("case %q passes", c.name)
			default:
				t.Logf("rejected by %q: %.300s", c.name, r.first)
				report.Checks++
			}
		})
	}
	t.Logf("absent: %q", report.Absent)
	t.Logf("matrix: %s, broken: %d of %d rejected, %d absent", report.Backend, report.Checks, report.Cases, len(report.Absent))
	return report
}

// recorder is a testing.TB that records failures instead of reporting them. Methods
// that it does not override, such as TempDir, are those of the surrounding test.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failed   bool
	first    string // message of the first failure
	panicked string
	cleanups []func()
}

// record runs do, then its cleanups, on separate goroutines, since FailNow ends the
// goroutine that calls it.
func record(t testing.TB, do func(t testing.TB)) *recorder {
	r := &recorder{TB: t}
	r.protect(func() { do(r) })
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			r.mu.Unlock()
			return r
		}
		last := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		r.protect(last)
	}
}

func (r *recorder) protect(do func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				r.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
		}()
		do()
	})
	wg.Wait()
}

func (r *recorder) fail(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.failed {
		r.failed, r.first = true, message
	}
}

func (r *recorder) Helper()                           {}
func (r *recorder) Log(...any)                        {}
func (r *recorder) Logf(string, ...any)               {}
func (r *recorder) Fail()                             { r.fail("") }
func (r *recorder) FailNow()                          { r.fail(""); runtime.Goexit() }
func (r *recorder) Error(args ...any)                 { r.fail(fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }
func (r *recorder) Fatal(args ...any)                 { r.fail(fmt.Sprint(args...)); runtime.Goexit() }

func (r *recorder) Fatalf(format string, args ...any) {
	r.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// wrapped breaks a backend by wrapping it, also after a reopen.
func wrapped(wrap func(good journal.Backend) journal.Backend) func(testing.TB, Harness, Opener) Harness {
	return func(_ testing.TB, good Harness, _ Opener) Harness {
		h := Harness{Backend: wrap(good.Backend)}
		if good.Reopen != nil {
			h.Reopen = func(t testing.TB) journal.Backend { return wrap(good.Reopen(t)) }
		}
		return h
	}
}
