package run_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
)

// Clients start, claim, finish, cancel and crash runs of one thread at random. In the
// journal, starts and ends then alternate, every run ends once, and none is left over.
func TestAtMostOneRunIsActiveWhateverHappens(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	each(t, func(b *bench) {
		var wg sync.WaitGroup
		for c := range 8 {
			rnd := rand.New(rand.NewPCG(seed, uint64(c)))
			wg.Go(func() { b.client(rnd) })
		}
		wg.Wait()
		for {
			h, err := b.rs.Claim(t.Context(), &run.ClaimOptions{Agent: "coder"})
			if err == nil {
				b.finish(h)
				continue
			}
			th := b.head()
			if th.ActiveRun == "" {
				break
			}
			b.e.Clock.Advance(time.Minute) // somebody claimed it and left
			if err := b.e.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		b.checkJournal()
	})
}

// client calls operations at random; some of them are refused.
func (b *bench) client(rnd *rand.Rand) {
	ctx := b.t.Context()
	policies := []string{run.Enqueue, run.Enqueue, run.Reject, run.Interrupt, run.Rollback}
	var last string
	for i := range 25 {
		var err error
		switch rnd.IntN(6) {
		case 0, 1:
			var r *run.Run
			r, err = b.rs.Start(ctx, b.id, run.Request{Prompt: fmt.Sprint(i), Policy: policies[rnd.IntN(len(policies))]})
			if err == nil {
				last = r.ID
			}
		case 2, 3:
			var h *run.Handle
			if h, err = b.rs.Claim(ctx, &run.ClaimOptions{Agent: "coder"}); err == nil {
				if err = h.Text(ctx, "working"); err == nil && rnd.IntN(4) > 0 {
					_, err = h.Finish(ctx, run.Succeeded, "")
				}
			}
		case 4:
			if last != "" {
				_, err = b.rs.Cancel(ctx, last, run.ByUser)
			}
		case 5:
			b.e.Clock.Advance(10 * time.Second)
			err = b.e.Sweep(ctx)
		}
		known := false
		for _, ok := range []error{thole.ErrConflict, thole.ErrNotFound, thole.ErrFenced} {
			known = known || errors.Is(err, ok)
		}
		if err != nil && !known {
			b.t.Error(err)
		}
	}
}

func (b *bench) checkJournal() {
	active := ""
	made, ended := map[string]bool{}, map[string]bool{}
	for e, err := range b.sp.Events(b.t.Context(), thole.ReadQuery{Types: []string{"run.*"}}) {
		if err != nil {
			b.t.Fatal(err)
		}
		var d struct{ Run string }
		if err := e.As(&d); err != nil {
			b.t.Fatal(err)
		}
		switch e.Type {
		case "run.queued":
			made[d.Run] = true
		case "run.started":
			if active != "" {
				b.t.Errorf("%s started at %s while %s was active", d.Run, e.Position, active)
			}
			active = d.Run
		case "run.finished":
			if ended[d.Run] {
				b.t.Errorf("%s ended twice", d.Run)
			}
			if ended[d.Run] = true; active == d.Run {
				active = ""
			}
		}
	}
	for id := range made {
		if !ended[id] {
			b.t.Errorf("%s never ended", id)
		}
	}
	if q, err := b.rs.Queue(b.t.Context(), b.id); err != nil || len(q) != 0 {
		b.t.Errorf("queue: got %d (%v), want none", len(q), err)
	}
	if left, err := b.sp.List(b.t.Context(), thole.ListQuery{Prefix: "ready/"}); err != nil || len(left) != 0 {
		b.t.Errorf("left for workers: %v (%v)", left, err)
	}
	p, err := b.ts.Turns(b.t.Context(), b.id, nil)
	if err != nil || b.head().Turns < len(p.Items) {
		b.t.Errorf("turns: got %d in the history, %d in the head (%v)", len(p.Items), b.head().Turns, err)
	}
}
