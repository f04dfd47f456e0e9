package filestore_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/faultfs"
	"github.com/thole-dev/thole/journal"
)

// pairRates are the probabilities of the faults when two stores work on one directory.
var pairRates = faultfs.Faults{
	faultfs.ShortWrite: 250, faultfs.NoSpace: 250, faultfs.WriteError: 250, faultfs.ReadError: 900,
	faultfs.SyncError: 700, faultfs.DeleteError: 150, faultfs.CutError: 30, faultfs.RenameError: 200,
	faultfs.Killed: 2500, faultfs.PowerLoss: 4000,
}

// howMany returns the number of schedules: THOLE_SCHEDULES, else package effort
// decides.
func howMany(t *testing.T) int {
	text := os.Getenv("THOLE_SCHEDULES")
	if text == "" {
		return effort.Amount(20, 100, 1000)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("THOLE_SCHEDULES: got %q, want a number", text)
	}
	return n
}

// firstSeed returns THOLE_SEED, else a seed from the clock.
func firstSeed(t *testing.T) uint64 {
	text := os.Getenv("THOLE_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano())
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("THOLE_SEED: got %q, want a number", text)
	}
	return seed
}

// Two stores work on one directory at the same time, each as a process of its own that
// may be killed, on a disk with faults of every kind.
func TestTwoStoresLoseNothingUnderFaults(t *testing.T) {
	seed, n := firstSeed(t), howMany(t)
	fired, did := map[faultfs.Kind]int{}, map[string]int{}
	for i := range n {
		p := newPair(t, seed+uint64(i))
		if err := p.run(); err != nil {
			t.Fatalf("schedule %d failed, THOLE_SEED=%d THOLE_SCHEDULES=1: %v\nthe latest steps:\n%s", i, p.seed, err, p.story())
		}
		for k, c := range p.disk.Counts() {
			fired[k] += c
		}
		for what, c := range p.did {
			did[what] += c
		}
	}
	for _, k := range slices.Sorted(maps.Keys(pairRates)) {
		if fired[k] == 0 && n >= 100 {
			t.Errorf("no %s was fired", k)
		}
	}
	for _, what := range []string{"notes that lacked something", "races", "stale checks refused"} {
		if did[what] == 0 && n >= 20 {
			t.Errorf("%s: found none", what)
		}
	}
	t.Logf("Two-store schedules on files: %d from THOLE_SEED=%d, faults fired: %s; done: %s; nothing lost or given twice",
		n, seed, tallied(fired), tallied(did))
}

func tallied[K ~string](counts map[K]int) string {
	text := ""
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf(", %s %d", k, counts[k])
	}
	return text[min(2, len(text)):]
}

// pair is random work on two stores over one directory, and the expected content.
type pair struct {
	*testing.T
	seed  uint64
	rand  *rand.Rand
	disk  *faultfs.FS
	sides [2]*side
	past  map[string]*past // by space
	ids   int
	did   map[string]int
	said  bytes.Buffer // the log of the stores
	voice *slog.Logger // of both stores, which may log at the same time
	done  []string     // the latest steps
}

// side is one of the two stores; nil while it is not open.
type side struct {
	*filestore.Store
	name    string
	process *faultfs.Process
	seen    map[string]journal.Position // how far it has shown each space
	stopped bool                        // it reported that it has stopped
}

var pairSpaces = []string{"user:1", "user:2", "project:shop", "global"}

func newPair(t *testing.T, seed uint64) *pair {
	p := &pair{
		T: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 5)), disk: faultfs.New(seed), past: map[string]*past{}, did: map[string]int{},
	}
	p.voice = slog.New(slog.NewTextHandler(&p.said, nil))
	for _, name := range pairSpaces {
		p.past[name] = &past{name: name, given: map[journal.Position]string{}}
	}
	return p
}

// run does random work, and verifies the content now and then.
func (p *pair) run() error {
	defer p.closeAll()
	for range 3 {
		for range 10 + p.rand.IntN(40) {
			if err := p.step(); err != nil {
				return err
			}
		}
		if err := p.verify(); err != nil {
			return err
		}
		switch p.rand.IntN(4) {
		case 0:
			p.lose()
		case 1:
			p.closeAll()
		} // else both continue with what they have in memory
	}
	p.lose()
	return p.verify()
}

func (p *pair) story() (text string) {
	for _, line := range p.done {
		text += "  " + line + "\n"
	}
	text += p.said.String()
	return text
}

func (p *pair) log(format string, args ...any) {
	p.done = append(p.done, fmt.Sprintf(format, args...))
	p.done = p.done[max(0, len(p.done)-40):]
}

// on returns an open side, with or without faults.
func (p *pair) on(i int) (*side, error) {
	if err := p.alive(); err != nil {
		return nil, err
	}
	if p.sides[i] != nil {
		return p.sides[i], nil
	}
	for {
		s := &side{name: string("AB"[i]), process: p.disk.Process(), seen: map[string]journal.Position{}}
		lag := time.Duration(-1)
		if p.rand.IntN(3) == 0 {
			lag = time.Microsecond // files are written in the background
		}
		var err error
		s.Store, err = filestore.Open(p.Context(), "/store", &filestore.Options{FS: s.process, Log: p.voice, Lag: lag, SegmentBytes: 700})
		p.log("%s: open: %v", s.name, err)
		if err == nil {
			p.sides[i] = s
			return s, nil
		}
		p.disk.Fail(nil)
		if err := p.alive(); err != nil {
			return nil, err
		}
		if s.Store, err = filestore.Open(p.Context(), "/store", &filestore.Options{FS: p.disk, Log: quiet, Lag: -1, SegmentBytes: 700}); err != nil {
			return nil, fmt.Errorf("open on a disk without faults: %w", err)
		}
		s.Store.Close()
	}
}

// alive drops the sides that were killed and restarts them with what the crash left.
func (p *pair) alive() error {
	for i, s := range p.sides {
		if s != nil && s.process.Dead() {
			p.log("%s: was killed", s.name)
			p.close(i)
		}
	}
	if _, err := p.disk.Stat("/"); err != nil && p.disk.Crashed() {
		p.lose()
	}
	return nil
}

// lose cuts the power.
func (p *pair) lose() {
	p.log("power lost")
	old := p.disk
	p.disk = old.Crash()
	p.closeAll()
}

// close closes a side; it may fail.
func (p *pair) close(i int) {
	if s := p.sides[i]; s != nil {
		p.log("%s: close: %v", s.name, s.Close())
		p.sides[i] = nil
	}
}

func (p *pair) closeAll() { p.close(0); p.close(1) }

// step does one thing on one of the sides, or one on each at the same time.
func (p *pair) step() error {
	i := p.rand.IntN(2)
	p.disk.Fail(pairRates)
	if p.rand.IntN(8) == 0 {
		p.disk.Fail(nil)
	}
	s, err := p.on(i)
	if err != nil {
		return err
	}
	if s.Stopped() != nil && p.rand.IntN(2) == 0 { // else it is used further
		p.did["stores that stopped"]++
		p.close(i)
		return nil
	}
	switch n := p.rand.IntN(100); {
	case n < 50:
		return p.commit(s)
	case n < 60:
		return p.both()
	case n < 68:
		p.log("%s: flush: %v", s.name, s.Flush(p.Context()))
		return nil
	case n < 78:
		return p.look(s)
	case n < 88:
		return p.purge(s)
	case n < 93:
		return p.load(s)
	case n < 97:
		p.close(i)
	default:
		s.process.Kill()
	}
	return nil
}
