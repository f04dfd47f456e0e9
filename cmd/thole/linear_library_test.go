package main_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/linear"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// library is a target: Stores on one backend, as several processes would open them.
type library struct {
	t      testing.TB
	stores []*thole.Store
	lease  time.Duration
	ids    sync.Map // run ids by part and number
	odd    sync.Map // errors that no operation should return
}

// newLibrary opens a Store on each backend. The backends may be faulty.
func newLibrary(t testing.TB, lease time.Duration, backends ...journal.Backend) *library {
	l := &library{t: t, lease: lease}
	for _, b := range backends {
		s, err := thole.Open(t.Context(), b, &thole.Options{Concepts: rest.Concepts(), Sweep: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		l.stores = append(l.stores, s)
	}
	return l
}

func (l *library) space(part string) (sp *thole.Space, name string) {
	space, name, _ := strings.Cut(part, " ")
	return l.stores[rand.IntN(len(l.stores))].Space(space), name
}

func (l *library) name(ctx context.Context, kind linear.Kind, space string, n int) string {
	if kind != linear.Line {
		what := []string{"kv", "document"}[n%2]
		return fmt.Sprintf("%s %s%d", space, what, n)
	}
	sp, _ := l.space(space)
	t, err := thread.In(sp).Create(ctx, &thread.CreateOptions{Assistant: fmt.Sprintf("worker%d", n)})
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %s worker%d", space, t.ID, n)
}

func (l *library) do(ctx context.Context, op *linear.Op) linear.Outcome {
	sp, name := l.space(op.Part)
	var err error
	switch op.Kind {
	case linear.Record:
		err = l.record(ctx, sp, name, op)
	case linear.Lock:
		err = l.lock(ctx, sp, name, op)
	case linear.Line:
		err = l.line(ctx, sp, name, op)
	}
	switch {
	case err == nil:
		return linear.Done
	case errors.Is(err, thole.ErrConflict), errors.Is(err, thole.ErrFenced):
		return linear.Refused
	case errors.Is(err, errNothing):
		return linear.Never
	case !errors.Is(err, errInjected) && ctx.Err() == nil:
		l.odd.Store(fmt.Sprintf("%s: %v", op.Do, err), true)
	}
	return linear.Unknown
}

// errNothing is the error of an operation that had nothing to work on.
var errNothing = errors.New("nothing to do")

func (l *library) record(ctx context.Context, sp *thole.Space, name string, op *linear.Op) error {
	at, err := thole.ParsePosition(op.If)
	absent := op.If == linear.Absent
	if err != nil && !absent {
		return err
	}
	var version thole.Position
	isDoc := strings.HasPrefix(name, "document")
	switch op.Do {
	case linear.Get:
		var e kv.Entry
		var d document.Document
		if isDoc {
			d, err = document.In(sp).Get(ctx, name, nil)
			version, op.Value = d.Version, text(d.Value)
		} else {
			e, err = kv.In(sp).Get(ctx, "linear", name)
			version, op.Value = e.Version, text(e.Data)
		}
	case linear.Put:
		var e kv.Entry
		var d document.Document
		if isDoc {
			d, err = document.In(sp).Put(ctx, name, op.Value, &document.Options{IfMatch: at, IfAbsent: absent})
			version = d.Version
		} else {
			e, err = kv.In(sp).Set(ctx, "linear", name, op.Value, &kv.SetOptions{IfMatch: at, IfAbsent: absent})
			version = e.Version
		}
	case linear.Delete:
		_, err = kv.In(sp).Delete(ctx, "linear", name, &kv.DeleteOptions{IfMatch: at})
	}
	op.Version = version.String()
	return err
}

// text returns the text of a JSON string.
func text(data []byte) string { return strings.Trim(string(data), `"`) }

func lockBase(name string) string { return "lock/" + url.PathEscape(name) }

func (l *library) lock(ctx context.Context, sp *thole.Space, name string, op *linear.Op) error {
	switch op.Do {
	case linear.Acquire:
		held, err := lock.In(sp).Acquire(ctx, name, &lock.Options{TTL: op.TTL})
		if err == nil {
			op.Version = held.Fence.Token.String()
		}
		return err
	case linear.Release:
		return lock.In(sp).Release(ctx, name, fenceOf(l.t, lockBase(name), op.If))
	default:
		_, err := kv.In(sp.Under(fenceOf(l.t, lockBase(name), op.If))).Set(ctx, "under", name, 1, nil)
		return err
	}
}

func (l *library) line(ctx context.Context, sp *thole.Space, name string, op *linear.Op) error {
	threadID, agent, _ := strings.Cut(name, " ")
	runs := run.In(sp, &run.Options{Lease: l.lease})
	id, known := l.ids.Load(op.Part + " " + op.Value)
	switch op.Do {
	case linear.Start:
		r, err := runs.Start(ctx, threadID, run.Request{Prompt: op.Value})
		if err == nil {
			l.ids.Store(op.Part+" "+op.Value, r.ID)
		}
		return err
	case linear.Claim:
		h, err := runs.Claim(ctx, &run.ClaimOptions{Agent: agent})
		if errors.Is(err, thole.ErrNotFound) {
			return errNothing
		}
		if err == nil {
			op.Value, op.Version = h.Request()[0].Content, h.Fence().Token.String()
			l.ids.Store(op.Part+" "+op.Value, h.ID())
		}
		return err
	}
	if !known {
		return errNothing
	}
	if op.Do == linear.Look {
		r, err := runs.Get(ctx, id.(string))
		if err == nil {
			op.Version = r.Status
		}
		return err
	}
	h, err := runs.Attach(ctx, id.(string), fenceOf(l.t, "run/"+id.(string), op.If))
	if err == nil {
		_, err = h.Finish(ctx, run.Succeeded, "")
	}
	return err
}

// mustBeSane fails the test for each error that should not have occurred.
func (l *library) mustBeSane() {
	l.t.Helper()
	l.odd.Range(func(err, _ any) bool {
		l.t.Errorf("an operation ended with: %v", err)
		return true
	})
}

var errInjected = errors.New("injected fault")

// faulty is a Backend that delays and fails some calls; a commit fails before or after
// it was applied. Close leaves the backend below open.
type faulty struct {
	journal.Backend
	shared bool
}

func (f faulty) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	dice := rand.IntN(200)
	if dice == 0 {
		return nil, errInjected
	}
	if dice < 20 {
		linger(ctx, rand.N(2*time.Millisecond))
	}
	res, err := f.Backend.Commit(ctx, batch)
	if dice == 199 {
		return nil, errInjected
	}
	return res, err
}

func (f faulty) Get(ctx context.Context, space string, keys ...string) ([]thole.Record, error) {
	if dice := rand.IntN(200); dice == 0 {
		return nil, errInjected
	} else if dice < 4 {
		linger(ctx, rand.N(time.Millisecond))
	}
	return f.Backend.Get(ctx, space, keys...)
}

func (f faulty) Close() error {
	if f.shared {
		return nil
	}
	return f.Backend.Close()
}

// inMemory returns one backend twice, with faults; wrap may break each.
func inMemory(t testing.TB, wrap func(journal.Backend) journal.Backend) []journal.Backend {
	m := memstore.New()
	t.Cleanup(func() { m.Close() })
	var both []journal.Backend
	for range 2 {
		b := journal.Backend(faulty{m, true})
		if wrap != nil {
			b = wrap(b)
		}
		both = append(both, b)
	}
	return both
}

func TestTheLibraryIsLinearizable(t *testing.T) {
	t.Run("mem", func(t *testing.T) { loadLibrary(t, effort.Amount(5000, 20_000, 20_000), inMemory(t, nil)...) })
	for name, dsn := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "thole.db") },
		"file":     func(t *testing.T) string { return "file:" + filepath.Join(t.TempDir(), "store") },
		"postgres": func(t *testing.T) string { return pgtest.Start(t).Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			var both []journal.Backend
			for at := dsn(t); len(both) < 2; {
				b, err := backend.Open(t.Context(), at)
				if err != nil {
					t.Fatal(err)
				}
				both = append(both, faulty{b, false})
			}
			loadLibrary(t, effort.Amount(1000, 4000, 4000), both...)
		})
	}
}

// loadLibrary checks that many operations of Stores on the backends.
func loadLibrary(t *testing.T, ops int, backends ...journal.Backend) {
	l := newLibrary(t, 400*time.Millisecond, backends...)
	linearized(t, (&linearLoad{Lease: l.lease, Ops: ops}).run(t.Context(), l), ops/2)
	l.mustBeSane()
}

// stale is a backend with a bug: some reads return an old state.
type stale struct {
	journal.Backend
	past *sync.Map // the newest record that was read, by space and key
}

func (s stale) Get(ctx context.Context, space string, keys ...string) ([]thole.Record, error) {
	records, err := s.Backend.Get(ctx, space, keys...)
	for i := range records {
		old, ok := s.past.Swap(space+" "+keys[i], records[i])
		if ok && rand.IntN(50) == 0 {
			records[i] = old.(thole.Record)
		}
	}
	return records, err
}

// careless is a backend with a bug: some commits lose a check.
type careless struct{ journal.Backend }

func (c careless) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	batch = slices.Clone(batch)
	for i := range batch {
		if n := len(batch[i].Checks); n > 0 && rand.IntN(50) == 0 {
			batch[i].Checks = batch[i].Checks[:n-1]
		}
	}
	return c.Backend.Commit(ctx, batch)
}

func TestTheCheckCatchesAStaleReadAndALostUpdate(t *testing.T) {
	var past sync.Map
	for name, wrap := range map[string]func(journal.Backend) journal.Backend{
		"stale read":  func(b journal.Backend) journal.Backend { return stale{b, &past} },
		"lost update": func(b journal.Backend) journal.Backend { return careless{b} },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLibrary(t, 400*time.Millisecond, inMemory(t, wrap)...)
			r := linear.Check((&linearLoad{Lease: l.lease, Ops: 10_000}).run(t.Context(), l), time.Minute)
			os.Remove(r.Picture)
			if len(r.Illegal) == 0 {
				t.Errorf("the bug was not caught:\n%v", r)
			}
			t.Logf("\n%v", r)
		})
	}
}
