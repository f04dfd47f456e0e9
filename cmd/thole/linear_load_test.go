package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/linear"
)

// target is what a linearLoad works on. Its methods are safe for concurrent use.
type target interface {
	// do carries out an operation on a part that name gave, and fills in what it
	// gave.
	do(ctx context.Context, op *linear.Op) linear.Outcome
	// name makes a fresh part of a kind in a space; "": not now.
	name(ctx context.Context, kind linear.Kind, space string, n int) string
}

// linearLoad is a mixed load of concurrent clients whose history is checked. Its
// zero values are the defaults.
type linearLoad struct {
	Clients int           // default 8
	Spaces  int           // default 4
	Slots   int           // parts of a kind that are in use at a time; default 4
	Lease   time.Duration // of a claimed job, as the target sets it; default 30 s
	Ops     int           // ends after so many, if not by its context; 0: never
	Reads   int           // of ten operations so many only read a record, besides those of the mix

	target  target
	history *linear.History

	mu      sync.Mutex
	slots   map[linear.Kind][]*linearPart
	named   int
	errands int // operations begun so far
}

// linearPart is a part in use of one kind, with what clients know of it.
type linearPart struct {
	kind  linear.Kind
	name  string
	limit int // after so many operations another part replaces it

	ops, unknown int
	jobs         int
	seen         []string    // the newest versions and tokens
	held         []linear.Op // claims of a line, until one without an answer
}

// maxUnknown is how many operations without an answer a part may have before another
// one replaces it, since each may double what a check has to search.
const maxUnknown = 4

// run loads the target until ctx ends, or Ops operations were done, and returns the
// history.
func (l *linearLoad) run(ctx context.Context, on target) []linear.Op {
	l.Clients, l.Spaces, l.Slots = orElse(l.Clients, 8), orElse(l.Spaces, 4), orElse(l.Slots, 4)
	l.Lease = orElse(l.Lease, 30*time.Second)
	l.mu.Lock()
	l.target, l.history, l.slots = on, linear.New(), make(map[linear.Kind][]*linearPart)
	l.mu.Unlock()
	var wg sync.WaitGroup
	for i := range l.Clients {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for n := 0; ctx.Err() == nil && l.goesOn(); n++ {
				l.one(ctx, r, i, n)
			}
		})
	}
	wg.Wait()
	return l.history.Ops()
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// recorded returns how many operations the history has so far.
func (l *linearLoad) recorded() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.history == nil {
		return 0
	}
	return len(l.history.Ops())
}

func (l *linearLoad) goesOn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errands++
	return l.Ops == 0 || l.errands <= l.Ops
}

// one does one operation on a part.
func (l *linearLoad) one(ctx context.Context, r *rand.Rand, client, n int) {
	kind, read := linear.Record, r.IntN(10) < l.Reads
	if !read {
		switch r.IntN(8) {
		case 0:
			kind = linear.Lock
		case 1, 2:
			kind = linear.Line
		}
	}
	p := l.part(ctx, r, kind)
	if p == nil {
		linger(ctx, 10*time.Millisecond)
		return
	}
	l.mu.Lock()
	op := linear.Op{Do: linear.Get}
	if !read {
		op = p.next(r, fmt.Sprintf("%d-%d", client, n))
	}
	p.ops++
	l.mu.Unlock()
	op.Kind, op.Part, op.Client = kind, p.name, client
	if op.Do == linear.Claim {
		op.TTL = l.Lease
	}
	op = l.history.Do(op, func(op *linear.Op) linear.Outcome { return l.target.do(ctx, op) })
	l.mu.Lock()
	defer l.mu.Unlock()
	p.learn(op)
}

// part returns a part of a kind, mostly one in use.
func (l *linearLoad) part(ctx context.Context, r *rand.Rand, kind linear.Kind) *linearPart {
	l.mu.Lock()
	all := l.slots[kind]
	i := r.IntN(l.Slots)
	if old := len(all) - l.Slots; old > 0 && r.IntN(20) == 0 {
		i = l.Slots + r.IntN(old) // one that is no longer in use
	}
	if i < len(all) && (i >= l.Slots || !all[i].full()) {
		defer l.mu.Unlock()
		return all[i]
	}
	n := l.named
	l.named++
	l.mu.Unlock()

	name := l.target.name(ctx, kind, fmt.Sprintf("project:linear%d", n%l.Spaces), n)
	if name == "" {
		return nil
	}
	p := &linearPart{kind: kind, name: name, limit: map[linear.Kind]int{linear.Record: 250, linear.Lock: 150, linear.Line: 200}[kind]}
	l.mu.Lock()
	defer l.mu.Unlock()
	all = l.slots[kind]
	switch {
	case len(all) < l.Slots:
		all = append(all, p)
	case i >= l.Slots || !all[i].full(): // another client replaced it first
		return all[i]
	default:
		if len(all) == 3*l.Slots { // forget the oldest one that is no longer in use
			all = append(all[:l.Slots], all[l.Slots+1:]...)
		}
		all = append(all, all[i])
		all[i] = p
	}
	l.slots[kind] = all
	return p
}

func (p *linearPart) full() bool {
	return p.ops >= p.limit || p.unknown >= maxUnknown || p.kind == linear.Line && p.jobs > 60
}

// next chooses an operation on the part. value is unique.
func (p *linearPart) next(r *rand.Rand, value string) (op linear.Op) {
	lately := linear.Absent
	if len(p.seen) > 0 {
		// Mostly the newest version, sometimes an old one.
		lately = p.seen[max(0, len(p.seen)-1-r.IntN(2)*r.IntN(4))]
	}
	switch p.kind {
	case linear.Record:
		switch op.Do = linear.Put; r.IntN(10) {
		case 0, 1, 2, 3:
			op.Do = linear.Get
			return op
		case 4:
			op.If = linear.Anyway
		case 5:
			op.If = linear.Absent
		case 6:
			if op.If = lately; lately != linear.Absent && !strings.Contains(p.name, "document") {
				op.Do = linear.Delete
			}
		default:
			op.If = lately
		}
		op.Value = value
	case linear.Lock:
		switch op.If = lately; r.IntN(6) {
		case 0, 1:
			op.Do = linear.Write
		case 2:
			op.Do = linear.Release
		}
		if op.Do == "" || lately == linear.Absent {
			op.Do, op.If, op.TTL = linear.Acquire, "", []time.Duration{300 * time.Millisecond, 3 * time.Second}[r.IntN(2)]
		}
	case linear.Line:
		op.Do = []linear.Verb{linear.Start, linear.Claim, linear.Claim, linear.Finish, linear.Finish, linear.Look}[r.IntN(6)]
		switch {
		case p.jobs == 0 || op.Do == linear.Start && p.jobs < 64:
			op.Do, op.Value = linear.Start, strconv.Itoa(p.jobs)
			p.jobs++
		case op.Do == linear.Finish && len(p.held) > 0:
			claim := p.held[max(0, len(p.held)-1-r.IntN(2)*r.IntN(3))]
			op.Value, op.If = claim.Value, claim.Version
		case op.Do == linear.Look:
			op.Value = strconv.Itoa(r.IntN(p.jobs))
		default:
			op.Do = linear.Claim
		}
	}
	return op
}

// learn remembers the results of op.
func (p *linearPart) learn(op linear.Op) {
	const few = 8
	switch {
	case op.Outcome == linear.Unknown:
		p.unknown++
	case op.Outcome != linear.Done:
	case op.Do == linear.Claim:
		p.held = append(p.held[max(0, len(p.held)-few):], op)
	case op.Version != "" && op.Do != linear.Look:
		p.seen = append(p.seen[max(0, len(p.seen)-few):], op.Version)
	}
}

func linger(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// linearized checks a history; it must contain at least that many operations, and some
// of every kind.
func linearized(t testing.TB, ops []linear.Op, least int) linear.Report {
	t.Helper()
	r := linear.Check(ops, time.Minute)
	t.Logf("\n%v\n%s", r, outcomes(ops))
	if !r.OK() {
		t.Errorf("the history is not linearizable")
	}
	for _, kind := range []linear.Kind{linear.Record, linear.Lock, linear.Line} {
		if r.Kinds[kind].Ops == 0 || r.Ops() < least {
			t.Errorf("%d operations were checked, %d of kind %s; want %d and some of every kind", r.Ops(), r.Kinds[kind].Ops, kind, least)
		}
	}
	return r
}

// outcomes counts the operations of a history by verb and outcome, a line each.
func outcomes(ops []linear.Op) string {
	counts := map[linear.Verb][4]int{}
	for _, op := range ops {
		c := counts[op.Do]
		c[op.Outcome]++
		counts[op.Do] = c
	}
	var b strings.Builder
	for _, do := range []linear.Verb{linear.Get, linear.Put, linear.Delete, linear.Acquire, linear.Release, linear.Write,
		linear.Start, linear.Claim, linear.Finish, linear.Look} {
		c := counts[do]
		fmt.Fprintf(&b, "%-8s %7d done %6d refused %5d without an answer\n", do, c[linear.Done], c[linear.Refused], c[linear.Unknown])
	}
	return b.String()
}

// fenceOf returns the fence of a lease whose token is known.
func fenceOf(t testing.TB, base, token string) thole.Fence {
	at, err := thole.ParsePosition(token)
	if err != nil {
		t.Error(err)
	}
	return thole.Fence{Key: base + "/owner", Token: at}
}
