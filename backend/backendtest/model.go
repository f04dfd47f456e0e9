package backendtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/journal"
)

// Model runs thousands of random operations on a fresh store and on a simple model of
// it, across reopens, and fails at the first difference. The same seed gives the same
// operations; a zero seed is taken from the clock. The environment variable THOLE_SEED
// overrides the seed. Model logs it.
func Model(t *testing.T, open Opener, seed uint64) Report {
	t.Helper()
	if text := os.Getenv("THOLE_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("THOLE_SEED: got %q, want a number", text)
		}
		seed = n
	}
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("model: THOLE_SEED=%d", seed)
	var checks atomic.Int64
	h := open(t)
	steps := effort.Amount(1000, 2000, 10_000)
	runModel(newEnv(t, h, &checks), seed, steps)
	report := Report{Backend: typeOf(h.Backend), Cases: 1, Checks: int(checks.Load())}
	t.Logf("matrix: %s, model: %d steps, %d checks", report.Backend, steps, report.Checks)
	return report
}

// modelRun is one run of the model test.
type modelRun struct {
	*env
	rand   *rand.Rand
	want   reference
	epochs map[string]bool // every epoch that the store ever returned
	now    time.Time
	copies int
	done   []string // the latest operations, for the report of a failure
}

func runModel(e *env, seed uint64, steps int) {
	m := &modelRun{env: e, rand: rand.New(rand.NewPCG(seed, 1)), want: reference{}, epochs: map[string]bool{}, now: now}
	e.Cleanup(func() {
		if e.Failed() {
			e.Logf("THOLE_SEED=%d, the latest operations:\n%s", seed, strings.Join(m.done, "\n"))
		}
	})
	for range steps {
		m.step()
		if e.Failed() {
			return
		}
	}
	for name := range m.want {
		m.compare(name)
	}
	e.verify()
}

func (m *modelRun) step() {
	m.now = m.now.Add(time.Duration(m.rand.IntN(4_000_000)) * time.Microsecond)
	switch n := m.rand.IntN(1000); {
	case n < 450:
		m.commits()
	case n < 550:
		m.gets()
	case n < 660:
		m.lists()
	case n < 860:
		m.reads()
	case n < 940:
		m.names()
	case n < 970:
		m.purges()
	case n < 985:
		m.loads()
	case n < 993:
		m.log("reopen")
		m.reopen()
	default:
		m.compare(m.space())
	}
}

func (m *modelRun) log(format string, args ...any) {
	m.done = append(m.done, fmt.Sprintf(format, args...))
	m.done = m.done[max(0, len(m.done)-12):]
}

func pick[T any](m *modelRun, of ...T) T { return of[m.rand.IntN(len(of))] }

func (m *modelRun) space() string {
	if names := slices.Sorted(maps.Keys(m.want)); len(names) > 0 && m.rand.IntN(4) == 0 {
		return pick(m, names...)
	}
	return pick(m, "project:shop", "user:1", "user:é", "global")
}

func (m *modelRun) stream() string { return pick(m, "s", "S", "s/1", "thread/é", "t") }

func (m *modelRun) key() string { return pick(m, "a", "a/", "a/b", "a/c", "A/b", "a0", "b/x", "é/1") }

func (m *modelRun) typ() string {
	return pick(m, "message.added", "message.updated", "run.queued", "runs.x")
}

// position returns a random position in or near the space, valid or not.
func (m *modelRun) position(name string) journal.Position {
	s := m.want[name]
	if s == nil || m.rand.IntN(20) == 0 {
		return pick(m, journal.Position{}, journal.Position{Epoch: "0001aaaaaaaa", Seq: 2})
	}
	return s.at(m.rand.Uint64N(s.last + 3))
}

func (m *modelRun) commits() {
	batch := make([]journal.Commit, 1+m.rand.IntN(3))
	for i := range batch {
		batch[i] = m.commit1()
	}
	m.log("commit %s", show(batch))
	results := m.env.commit(batch...)
	for i, c := range batch {
		got := results[i]
		if conflict := m.want.conflict(c); conflict != nil {
			m.need(got.Conflict != nil, "commit %d: got success, want conflict %+v", i, conflict)
			m.equal("conflict", *got.Conflict, *conflict)
			continue
		}
		m.need(got.Conflict == nil, "commit %d: got conflict %v, want success", i, got.Conflict)
		if m.want[c.Space] == nil {
			m.ok(!m.epochs[got.Last.Epoch], "epoch %s is not new", got.Last.Epoch)
			m.epochs[got.Last.Epoch] = true
		}
		m.equal("result", got, m.want.apply(c, got))
	}
}

// commit1 returns a random commit whose checks mostly hold.
func (m *modelRun) commit1() journal.Commit {
	c := journal.Commit{Space: m.space(), Now: m.now, Actor: pick(m, "", "user:1", "agent:a"), Cause: pick(m, "", "run_1")}
	if m.rand.IntN(15) == 0 {
		c.Now = m.now.Add(-time.Minute) // as another process's clock may be
	}
	for range m.rand.IntN(3) {
		k := journal.Check{Key: m.key()}
		if m.rand.IntN(2) == 0 {
			k = journal.Check{Stream: m.stream()}
		}
		if m.rand.IntN(5) == 0 {
			k.At = m.position(c.Space)
		} else if s := m.want[c.Space]; s != nil && k.Key != "" {
			k.At = s.records[k.Key].Version
		} else if s != nil {
			k.At = s.version(k.Stream)
		}
		c.Checks = append(c.Checks, k)
	}
	for i := range m.rand.IntN(4) {
		ev := journal.Event{Stream: m.stream(), Type: m.typ(), Subject: pick(m, "", "user:7"), Schema: m.rand.IntN(3)}
		if i > 0 {
			ev.Refs, ev.Data = []string{"r", fmt.Sprint(i)}, json.RawMessage(fmt.Sprintf(`{ "n": %d }`, m.rand.IntN(1000)))
		}
		c.Events = append(c.Events, ev)
	}
	for range m.rand.IntN(4) {
		w := journal.Write{Key: m.key(), Schema: m.rand.IntN(3)}
		if slices.ContainsFunc(c.Writes, func(other journal.Write) bool { return other.Key == w.Key }) {
			continue
		}
		if m.rand.IntN(4) > 0 {
			w.Value = json.RawMessage(strconv.Itoa(m.rand.IntN(1000)))
			if m.rand.IntN(3) == 0 {
				w.Expires, w.Notify = m.now.Add(time.Duration(m.rand.IntN(60))*time.Second), m.rand.IntN(2) == 0
			}
		}
		c.Writes = append(c.Writes, w)
	}
	if len(c.Events)+len(c.Writes) == 0 {
		c.Events = []journal.Event{event(m.stream(), m.typ())}
	}
	return c
}
