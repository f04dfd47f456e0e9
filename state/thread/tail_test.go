package thread_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

// The test changes and reads a thread at random, and compares each read with what a
// store that was just opened reads.
func TestTheWindowInMemoryIsTheOneInTheJournal(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		id := create(t, thread.In(e.Space("project:shop")), nil)
		for round := range 5 {
			w := worker{t: t, sp: e.Space("project:shop"), id: id}
			for range 60 {
				w.step(rnd)
				if rnd.IntN(3) == 0 {
					shown(t, w.sp, id, 1+rnd.IntN(60))
				}
			}
			w.end(rnd)
			for _, last := range []int{1, 5, 50, 400} {
				kept := shown(t, e.Space("project:shop"), id, last)
				e.Reopen()
				if fresh := shown(t, e.Space("project:shop"), id, last); kept != fresh {
					t.Fatalf("round %d, last %d:\nin memory %s\njournal   %s", round, last, kept, fresh)
				}
			}
		}
	})
}

func shown(t *testing.T, sp *thole.Space, id string, last int) string {
	t.Helper()
	ts := thread.In(sp)
	q := &thread.Query{Last: last}
	asTurns, asMessages := turns(t, ts, id, q), messages(t, ts, id, q)
	// What was read decides whether the end of the history was seen: a page may be
	// followed by an empty one.
	for asTurns.Next != "" {
		p := turns(t, ts, id, &thread.Query{Last: last, Cursor: asTurns.Next})
		if len(p.Items) > 0 {
			break
		}
		asTurns.Next = p.Next
	}
	for asMessages.Next != "" {
		p := messages(t, ts, id, &thread.Query{Last: last, Cursor: asMessages.Next})
		if len(p.Items) > 0 {
			break
		}
		asMessages.Next = p.Next
	}
	out, err := json.Marshal([]any{asTurns, asMessages})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// worker changes a thread as users and a run do.
type worker struct {
	t             *testing.T
	sp            *thole.Space
	id, run, turn string
	block         string
	bytes         int
	tools         []string
}

func (w *worker) step(rnd *rand.Rand) {
	w.t.Helper()
	if w.run == "" {
		if rnd.IntN(3) > 0 {
			say(w.t, thread.In(w.sp), w.id, []string{thread.User, thread.Assistant, thread.System}[rnd.IntN(3)], fmt.Sprint(rnd.IntN(1000)))
			return
		}
		w.run = thole.NewID("run")
		do(w.t, w.sp, func(tx *thole.Tx) (err error) {
			w.turn, err = thread.BeginTurn(tx, w.id, w.run, []thread.Block{thread.TextBlock("go")}[:rnd.IntN(2)])
			return err
		})
		return
	}
	switch n := rnd.IntN(10); {
	case n < 4:
		if w.block == "" {
			w.block, w.bytes = thole.NewID("blk"), 0
		}
		do(w.t, w.sp, func(tx *thole.Tx) error {
			return thread.AppendText(tx, w.id, thread.Delta{Turn: w.turn, Block: w.block, Offset: w.bytes, Text: "more "})
		})
		w.bytes += len("more ")
	case n < 6:
		w.block = ""
		do(w.t, w.sp, func(tx *thole.Tx) error {
			call, err := thread.StartTool(tx, w.id, w.turn, "", thread.Tool{Name: "Bash"})
			w.tools = append(w.tools, call)
			return err
		})
	case n < 8 && len(w.tools) > 0:
		do(w.t, w.sp, func(tx *thole.Tx) error {
			return thread.FinishTool(tx, w.id, w.turn, w.tools[0], thread.ToolResult{Result: json.RawMessage(`1`), Failed: n == 7})
		})
		w.tools = w.tools[1:]
	case n == 8:
		w.block = ""
		do(w.t, w.sp, func(tx *thole.Tx) error {
			_, err := thread.PutBlock(tx, w.id, w.turn, thread.Block{Type: thread.Notice, Content: "thinking",
				Meta: map[string]json.RawMessage{"n": json.RawMessage(`1`)}})
			return err
		})
	default:
		w.end(rnd)
	}
}

func (w *worker) end(rnd *rand.Rand) {
	w.t.Helper()
	if w.run == "" {
		return
	}
	do(w.t, w.sp, func(tx *thole.Tx) error {
		status := []string{thread.Done, thread.Error, thread.Interrupted}[rnd.IntN(3)]
		if err := thread.FinishTurn(tx, w.id, w.run, status, &thread.Usage{InputTokens: 1}); err != nil || rnd.IntN(4) > 0 {
			return err
		}
		return thread.DropTurn(tx, w.id, w.turn, w.run)
	})
	*w = worker{t: w.t, sp: w.sp, id: w.id}
}
