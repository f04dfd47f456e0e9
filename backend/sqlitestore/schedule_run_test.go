package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole/backend/backendtest/model"
	"github.com/thole-dev/thole/backend/sqlitestore"
)

// schedule is one run of random work under random faults, with several starts of a
// machine. What a store acknowledged must stay; any other commit is there completely or
// not at all.
type schedule struct {
	rand   *rand.Rand
	root   string // temporary directory
	lies   lie
	disk   *platter
	path   string
	stores []*instance
	now    time.Time
	values int

	base    model.World   // the acknowledged state
	pending []model.World // the states that are possible: base, and base with one failed call
	struck  int           // faults that have struck
	report
	done []string // the latest steps, for the report of a failure
}

// instance is one of the open stores on the file.
type instance struct{ *sqlitestore.Store }

// report counts what happened in schedules.
type report struct {
	fired                                  tally
	lives, commits, failed, stopped, reads int
}

func (r *report) add(other report) {
	r.fired.add(other.fired)
	r.lives += other.lives
	r.commits += other.commits
	r.failed += other.failed
	r.stopped += other.stopped
	r.reads += other.reads
}

// errPower ends a life of the machine.
var errPower = errors.New("the power is off")

// runSchedule runs the schedule of a seed below the directory root and returns the
// first error.
func runSchedule(seed uint64, root string, lies lie) (report, error) {
	s := &schedule{rand: rand.New(rand.NewPCG(seed, 2)), root: root, lies: lies, base: model.World{}, now: time.UnixMicro(1e15).UTC()}
	err := s.run()
	if err != nil {
		err = fmt.Errorf("the latest steps:\n%s\n%w", strings.Join(s.done, "\n"), err)
	}
	return s.report, err
}

func (s *schedule) run() error {
	var files map[string][]byte
	for range 2 + s.rand.IntN(3) {
		err := s.live(files)
		s.closeAll()
		files = s.disk.powerLoss()
		s.fired.add(s.disk.fired)
		s.fired[powerLost]++
		s.lives++
		s.log("power lost, left %s", sizes(files))
		if err != nil && !errors.Is(err, errPower) {
			return err
		}
		if s.rand.IntN(3) > 0 { // else the next life begins with what this one left
			if files, err = s.recovered(files); err != nil {
				return err
			}
		}
	}
	_, err := s.recovered(files)
	return err
}

// live runs one life of the machine, on a disk with the files.
func (s *schedule) live(files map[string][]byte) (err error) {
	dir, err := os.MkdirTemp(s.root, "")
	if err != nil {
		return err
	}
	if s.disk, err = newPlatter(dir, files, rand.New(rand.NewPCG(s.rand.Uint64(), 3))); err != nil {
		return err
	}
	s.disk.lies, s.path, s.struck = s.lies, filepath.Join(dir, "thole.db"), 0
	if s.rand.IntN(4) > 0 {
		s.disk.arm(powerLost, s.rand.IntN(pick(s, 20, 100, 1000)))
	}
	if s.rand.IntN(4) == 0 {
		s.arm()
	}
	if err := s.openFirst(); err != nil {
		return err
	}
	for range 10 + s.rand.IntN(40) {
		if err := s.step(); err != nil {
			return err
		}
	}
	if s.rand.IntN(2) == 0 {
		return s.closeGently()
	}
	return nil
}

// step does one random thing.
func (s *schedule) step() error {
	s.now = s.now.Add(time.Duration(s.rand.IntN(1e6)) * time.Microsecond)
	if s.rand.IntN(4) == 0 {
		s.arm()
	}
	on := pick(s, s.stores...)
	if on.Stopped() != nil && s.rand.IntN(2) == 0 { // else it is used further
		return s.openFirst()
	}
	switch n := s.rand.IntN(100); {
	case n < 60:
		return s.commit(on)
	case n < 65:
		return s.purgeOn(on)
	case n < 85:
		return s.read(on)
	case n < 92:
		s.log("disarm")
		s.disk.disarm()
		return nil
	case n < 94:
		return s.call(on, "check", func(ctx context.Context) error { return on.Check(ctx) })
	case n < 97 && len(s.stores) == 1:
		return s.open()
	case n < 98:
		s.log("kill")
		s.disk.kill()
		s.closeAll()
		return s.openFirst()
	default:
		if err := s.closeGently(); err != nil {
			return err
		}
		return s.openFirst()
	}
}

// arm prepares a fault; live decides about power loss.
func (s *schedule) arm() {
	kind, next := fault(s.rand.IntN(int(powerLost))), s.rand.IntN(pick(s, 1, 10, 50))
	s.log("arm: %s after %d", faultNames[kind], next)
	s.disk.arm(kind, next)
}

func (s *schedule) log(format string, args ...any) {
	s.done = append(s.done, fmt.Sprintf(format, args...))
	s.done = s.done[max(0, len(s.done)-25):]
}

// call runs do, which may fail only if a fault struck or the store had stopped. It
// returns errPower after power loss, else an error that nothing explains.
func (s *schedule) call(on *instance, what string, do func(ctx context.Context) error) error {
	err := s.try(on, what, do)
	if errors.Is(err, errUnexplained) || errors.Is(err, errPower) {
		return err
	}
	return nil
}

var errUnexplained = errors.New("failed without a fault")

// try is call, but also returns an error that a fault explains.
func (s *schedule) try(on *instance, what string, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s.disk.whoWaits(cancel)
	err := do(ctx)
	s.disk.whoWaits(nil)
	struck, lasting := s.disk.seen()
	stopped := on != nil && on.Stopped() != nil
	explained := struck > s.struck || lasting || stopped
	s.struck = struck
	s.log("%s: %v", what, err)
	switch {
	case s.disk.isOff():
		return errPower
	case err == nil:
		return nil
	case stopped && !stops(s.disk.fired):
		return fmt.Errorf("%s: stopped without a reason: %w", what, err)
	case !explained:
		return fmt.Errorf("%s: %w: %w", what, errUnexplained, err)
	}
	return err
}

// stops reports whether a fault struck for which a store stops. On a full disk a sync
// may fail too.
func stops(fired tally) bool {
	return fired[shortWrite]+fired[noSpace]+fired[writeFails]+fired[truncateFails]+fired[syncFails]+fired[deleteFails] > 0
}

// open opens a store on the file, and decides what failed calls left before the store
// is used.
func (s *schedule) open() error {
	on := &instance{}
	err := s.try(nil, "open", func(ctx context.Context) (err error) {
		on.Store, err = sqlitestore.Open(ctx, s.path, &sqlitestore.Options{
			VFS: newPlatterFS(s.disk), Readers: 2, CacheBytes: pick[int64](s, 0, 1<<20)})
		return err
	})
	if on.Store != nil {
		s.stores = append(s.stores, on)
	}
	if errors.Is(err, errUnexplained) || errors.Is(err, errPower) {
		return err
	}
	got, err := s.look()
	if err != nil || got == nil {
		return err
	}
	return s.settle(got)
}

// openFirst closes the stores that stopped and opens one if none is left.
func (s *schedule) openFirst() error {
	s.stores = slices.DeleteFunc(s.stores, func(on *instance) bool {
		if on.Stopped() == nil {
			return false
		}
		s.log("close what stopped: %v", on.Close())
		s.stopped++
		return true
	})
	for len(s.stores) == 0 {
		if err := s.open(); err != nil {
			return err
		}
		if len(s.stores) == 0 {
			s.disk.disarm()
		}
	}
	return nil
}

// settle finds out which of the possible states is the true one.
func (s *schedule) settle(got model.World) error {
	first := s.base.Differs(got)
	if first == nil {
		return nil // the failed call is not in the way, but may still be in the log
	}
	for _, w := range s.pending {
		if w.Differs(got) == nil {
			s.base, s.pending = w, nil
			return nil
		}
	}
	return fmt.Errorf("the state is neither the acknowledged one nor that with one of %d failed calls: %w", len(s.pending), first)
}

// closeGently closes all stores; if that fails, there must be a reason.
func (s *schedule) closeGently() error {
	for len(s.stores) > 0 {
		on := s.stores[0]
		s.stores = s.stores[1:]
		if err := s.call(on, "close", func(context.Context) error { return on.Close() }); err != nil {
			return err
		}
	}
	return nil
}

func (s *schedule) closeAll() {
	for _, on := range s.stores {
		on.Close()
	}
	s.stores = nil
}

// recovered opens the files on the operating system's file system, checks everything,
// and returns the files afterwards.
func (s *schedule) recovered(files map[string][]byte) (map[string][]byte, error) {
	dir, err := os.MkdirTemp(s.root, "")
	if err != nil {
		return nil, err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	ctx := context.Background()
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "thole.db"), nil)
	if err != nil {
		return nil, fmt.Errorf("open after power loss: %w", err)
	}
	defer store.Close()
	got, err := model.Observe(ctx, store)
	if err == nil {
		err = s.settle(got)
	}
	if err == nil {
		err = store.Check(ctx)
	}
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("after power loss: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "thole.db"))
	s.log("recovered")
	return map[string][]byte{"thole.db": data}, err
}

func sizes(files map[string][]byte) string {
	var parts []string
	for name, data := range files {
		parts = append(parts, fmt.Sprintf("%s %d", name, len(data)))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
