package sqlitestore_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/effort"
)

// The test runs random work under random faults. With the environment variable
// THOLE_SEED it runs the schedules from that seed on; only a checkpoint beside commits
// may change where their faults strike.
func TestNoFaultLosesWhatWasAcknowledged(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("THOLE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("THOLE_SEED: got %q, want a number", text)
		}
	}
	t.Logf("fault schedules: THOLE_SEED=%d", seed)
	var sum report
	schedules := effort.Amount(15, 100, 1000)
	for i := range uint64(schedules) {
		r, err := runSchedule(seed+i, t.TempDir(), honest)
		if err != nil {
			t.Fatalf("%v; THOLE_SEED=%d", err, seed+i)
		}
		sum.add(r)
	}
	t.Logf("fault schedules: %d; fired: %v", schedules, sum.fired)
	t.Logf("%d lives, %d batches acknowledged, %d failed, %d reads, %d stores stopped", sum.lives, sum.commits, sum.failed, sum.reads, sum.stopped)
}
