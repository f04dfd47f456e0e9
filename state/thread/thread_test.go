package thread_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

func TestMain(m *testing.M) { statetest.Main(m) }

func create(t *testing.T, ts *thread.Threads, opts *thread.CreateOptions) string {
	t.Helper()
	th, err := ts.Create(t.Context(), opts)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return th.ID
}

func say(t *testing.T, ts *thread.Threads, id, role, text string) *thread.Appended {
	t.Helper()
	a, err := ts.Append(t.Context(), id, thread.Message{Role: role, Blocks: []thread.Block{thread.TextBlock(text)}}, nil)
	if err != nil {
		t.Fatalf("append %q: %v", text, err)
	}
	return a
}

// do runs fn in a Tx, which must succeed.
func do(t *testing.T, sp *thole.Space, fn func(tx *thole.Tx) error) thole.Result {
	t.Helper()
	res, err := sp.Update(t.Context(), fn)
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	return res
}

func texts(ms []*thread.Message) string {
	var out []string
	for _, m := range ms {
		for _, b := range m.Blocks {
			out = append(out, m.Role[:1]+":"+b.Content)
		}
	}
	return strings.Join(out, " ")
}

func messages(t *testing.T, ts *thread.Threads, id string, q *thread.Query) thole.PageOf[*thread.Message] {
	t.Helper()
	p, err := ts.Messages(t.Context(), id, q)
	if err != nil {
		t.Fatalf("messages: %v", err)
	}
	return p
}

func turns(t *testing.T, ts *thread.Threads, id string, q *thread.Query) thole.PageOf[*thread.Turn] {
	t.Helper()
	p, err := ts.Turns(t.Context(), id, q)
	if err != nil {
		t.Fatalf("turns: %v", err)
	}
	return p
}

func TestMessagesMakeTurns(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ts := thread.In(e.Space("project:shop"))
		id := create(t, ts, &thread.CreateOptions{Assistant: "coder", Title: "A shop"})
		first := say(t, ts, id, thread.User, "hello")
		say(t, ts, id, thread.Assistant, "hi")
		say(t, ts, id, thread.Assistant, "anything else?")
		say(t, ts, id, thread.User, "a button")

		got := turns(t, ts, id, nil).Items
		var shape []string
		for _, tu := range got {
			shape = append(shape, fmt.Sprintf("%s %d/%d", tu.Status, len(tu.Request), len(tu.Response)))
		}
		if want := []string{"done 1/1", "done 0/1", "pending 1/0"}; !slices.Equal(shape, want) {
			t.Errorf("turns: got %v, want %v", shape, want)
		}
		ms := messages(t, ts, id, nil).Items
		if got, want := texts(ms), "u:hello a:hi a:anything else? u:a button"; got != want {
			t.Errorf("messages: got %q, want %q", got, want)
		}
		if ms[0].ID != first.ID || ms[0].Blocks[0].ID != first.Blocks[0].ID || ms[0].Position != first.Position {
			t.Errorf("message read back: got %+v, want %+v", ms[0], first.Message)
		}
		th, err := ts.Get(t.Context(), id)
		if err != nil || th.Turns != 3 || th.Messages != 4 || th.Status != thread.Idle || th.Visibility != thread.ForSpace {
			t.Errorf("head: got %+v (%v), want 3 turns, 4 messages, idle, space", th, err)
		}
	})
}

func TestATurnTellsWhatOpenedItFromWhatJoinedIt(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		ts := thread.In(sp)
		id := create(t, ts, nil)
		for _, first := range []string{"posted", "prompt", ""} {
			var request []thread.Block
			switch first {
			case "posted":
				say(t, ts, id, thread.User, first)
			case "prompt":
				request = append(request, thread.TextBlock(first))
			}
			run := thole.NewID("run")
			do(t, sp, func(tx *thole.Tx) error { _, err := thread.BeginTurn(tx, id, run, request); return err })
			say(t, ts, id, thread.System, "note")
			say(t, ts, id, thread.User, "joined")
			do(t, sp, func(tx *thole.Tx) error { return thread.FinishTurn(tx, id, run, thread.Done, nil) })
			page := turns(t, ts, id, nil)
			asked := page.Items[len(page.Items)-1].Asked()
			var got string
			for _, b := range asked.Opening {
				got += b.Content
			}
			if got != first || len(asked.Joined) != 1 || asked.Joined[0].Content != "joined" || asked.Own != (first != "posted") {
				t.Errorf("%q: got %+v", first, asked)
			}
		}
	})
}

func TestToolCallAndResultAreOneBlock(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		ts := thread.In(sp)
		id := create(t, ts, nil)
		run := thole.NewID("run")
		var turn, done, open string
		do(t, sp, func(tx *thole.Tx) (err error) {
			if turn, err = thread.BeginTurn(tx, id, run, []thread.Block{thread.TextBlock("edit it")}); err != nil {
				return err
			}
			if done, err = thread.StartTool(tx, id, turn, "", thread.Tool{Name: "Edit", Input: json.RawMessage(`{"path":"a"}`), OperationID: "op1"}); err != nil {
				return err
			}
			open, err = thread.StartTool(tx, id, turn, "", thread.Tool{Name: "Bash"})
			return err
		})
		e.Clock.Advance(1500 * time.Millisecond)
		finish := func(tx *thole.Tx) error {
			return thread.FinishTool(tx, id, turn, done, thread.ToolResult{Result: json.RawMessage(`"ok"`)})
		}
		do(t, sp, finish)
		if _, err := sp.Update(t.Context(), finish); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("a second result: got %v, want ErrConflict", err)
		}
		tu := turns(t, ts, id, nil).Items[0]
		if tu.Status != thread.Streaming || len(tu.Response) != 2 {
			t.Fatalf("while it runs: got %s with %d blocks, want streaming with 2", tu.Status, len(tu.Response))
		}
		b := tu.Response[0]
		if b.Status != thread.Done || b.Tool.Name != "Edit" || string(b.Tool.Result) != `"ok"` || b.Tool.DurationMS != 1500 || b.Tool.OperationID != "op1" {
			t.Errorf("finished call: got %+v %+v", b, b.Tool)
		}
		if tu.Response[1].Status != thread.Streaming {
			t.Errorf("open call while it runs: got %s, want streaming", tu.Response[1].Status)
		}
		do(t, sp, func(tx *thole.Tx) error { return thread.FinishTurn(tx, id, run, thread.Interrupted, nil) })
		tu = turns(t, ts, id, nil).Items[0]
		if got := tu.Response[1]; got.ID != open || got.Status != thread.Interrupted || tu.Status != thread.Interrupted {
			t.Errorf("open call of an ended turn: got %s in %s, want interrupted", got.Status, tu.Status)
		}
	})
}

func TestAChunkAtAWrongOffsetIsAConflict(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		ts := thread.In(sp)
		id, run, blk := create(t, ts, nil), thole.NewID("run"), thole.NewID("blk")
		var turn string
		do(t, sp, func(tx *thole.Tx) (err error) {
			turn, err = thread.BeginTurn(tx, id, run, []thread.Block{thread.TextBlock("go")})
			return err
		})
		chunk := func(offset int, text string) error {
			_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
				return thread.AppendText(tx, id, thread.Delta{Turn: turn, Block: blk, Offset: offset, Text: text})
			})
			return err
		}
		for i, text := range []string{"grün", "es ", "Licht"} {
			if err := chunk([]int{0, 5, 8}[i], text); err != nil {
				t.Fatalf("chunk %d: %v", i, err)
			}
		}
		var off *thread.OffsetError
		if err := chunk(5, "x"); !errors.As(err, &off) || off.Have != 13 || !errors.Is(err, thole.ErrConflict) {
			t.Errorf("a chunk at a wrong offset: got %v, want an OffsetError with 13", err)
		}
		if got, want := texts(messages(t, ts, id, nil).Items), "u:go a:grünes Licht"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		do(t, sp, func(tx *thole.Tx) error { return thread.FinishTurn(tx, id, run, thread.Done, nil) })
		if err := chunk(13, "!"); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("a chunk after the end: got %v, want ErrConflict", err)
		}
	})
}

func TestPagesCoverTheHistoryOnceAndInOrder(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp := e.Space("project:shop")
		ts := thread.In(sp)
		id := create(t, ts, nil)
		var want []string
		for i := range 40 {
			say(t, ts, id, thread.User, fmt.Sprint("q", i))
			want = append(want, fmt.Sprint("u:q", i))
			if i%3 == 0 {
				// A message is added to a run's turn during the run.
				run := thole.NewID("run")
				var turn string
				do(t, sp, func(tx *thole.Tx) (err error) {
					if turn, err = thread.BeginTurn(tx, id, run, nil); err != nil {
						return err
					}
					return thread.AppendText(tx, id, thread.Delta{Turn: turn, Block: thole.NewID("blk"), Text: fmt.Sprint("r", i)})
				})
				say(t, ts, id, thread.User, fmt.Sprint("s", i))
				do(t, sp, func(tx *thole.Tx) error { return thread.FinishTurn(tx, id, run, thread.Done, nil) })
				want = append(want, fmt.Sprint("a:r", i), fmt.Sprint("u:s", i))
			} else {
				say(t, ts, id, thread.Assistant, fmt.Sprint("a", i))
				want = append(want, fmt.Sprint("a:a", i))
			}
		}
		for _, last := range []int{1, 2, 3, 7, 50, 1000} {
			var got []string
			q := thread.Query{Last: last}
			for range 200 {
				p := messages(t, ts, id, &q)
				if len(p.Items) > last {
					t.Fatalf("last %d: got %d", last, len(p.Items))
				}
				if s := texts(p.Items); s != "" {
					got = append(strings.Split(s, " "), got...)
				}
				if q.Cursor = p.Next; q.Cursor == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("pages of %d: got %v, want %v", last, got, want)
			}
		}
		if n := len(turns(t, ts, id, &thread.Query{Last: 12}).Items); n != 12 {
			t.Errorf("turns: got %d, want 12", n)
		}
	})
}

func TestHistoryReadsAsOfAPosition(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ts := thread.In(e.Space("project:shop"))
		id := create(t, ts, nil)
		say(t, ts, id, thread.User, "one")
		at := say(t, ts, id, thread.Assistant, "two").Position
		say(t, ts, id, thread.User, "three")
		if got, want := texts(messages(t, ts, id, &thread.Query{At: at}).Items), "u:one a:two"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		at.Seq += 1000
		if _, err := ts.Messages(t.Context(), id, &thread.Query{At: at}); !errors.Is(err, thole.ErrTrimmed) {
			t.Errorf("beyond the end: got %v, want ErrTrimmed", err)
		}
	})
}

func TestCompactedTurnsShowASummaryAndStayReadable(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ts := thread.In(e.Space("project:shop"))
		id := create(t, ts, nil)
		var upTo string
		for i := range 6 {
			m := say(t, ts, id, thread.User, fmt.Sprint("q", i))
			say(t, ts, id, thread.Assistant, fmt.Sprint("a", i))
			if i == 3 {
				upTo = m.Turn
			}
		}
		if err := ts.Compact(t.Context(), id, upTo, "four questions"); err != nil {
			t.Fatal(err)
		}
		p := messages(t, ts, id, nil)
		if got, want := texts(p.Items), "a:four questions u:q4 a:a4 u:q5 a:a5"; got != want {
			t.Errorf("window: got %q, want %q", got, want)
		}
		p = messages(t, ts, id, &thread.Query{Cursor: p.Next})
		if got, want := texts(p.Items), "u:q0 a:a0 u:q1 a:a1 u:q2 a:a2 u:q3 a:a3"; got != want || p.Next != "" {
			t.Errorf("older page: got %q (next %q), want %q", got, p.Next, want)
		}
		if err := ts.Compact(t.Context(), id, "turn_00000000000000000000000000000000", "x"); !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("an unknown turn: got %v, want ErrNotFound", err)
		}
	})
}

func TestAppendsWithIfMatchLoseNothing(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ts := thread.In(e.Space("project:shop"))
		id := create(t, ts, nil)
		var wg sync.WaitGroup
		var conflicts atomic.Int64
		const clients, each = 24, 5
		for c := range clients {
			wg.Go(func() {
				for i := 0; i < each; {
					th, err := ts.Get(t.Context(), id)
					if err != nil {
						t.Error(err)
						return
					}
					_, err = ts.Append(t.Context(), id, thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock(fmt.Sprint(c, "-", i))}},
						&thread.AppendOptions{IfMatch: th.Version})
					var conflict *thole.ConflictError
					switch {
					case err == nil:
						i++
					case !errors.As(err, &conflict):
						t.Error(err)
						return
					default:
						conflicts.Add(1)
						if conflict.Actual.Compare(th.Version) <= 0 {
							t.Errorf("conflict names %s as the actual version, wanted was %s", conflict.Actual, th.Version)
						}
					}
				}
			})
		}
		wg.Wait()
		th, err := ts.Get(t.Context(), id)
		if err != nil || th.Messages != clients*each {
			t.Errorf("got %d messages (%v), want %d", th.Messages, err, clients*each)
		}
		if got := len(messages(t, ts, id, &thread.Query{Last: 1000}).Items); got != clients*each {
			t.Errorf("read back %d, want %d (%d conflicts)", got, clients*each, conflicts.Load())
		}
	})
}

func TestARepeatedPostIsStoredOnce(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ts := thread.In(e.Space("project:shop"))
		id := create(t, ts, nil)
		var ids []string
		for range 3 {
			ctx := thole.WithIdempotencyKey(t.Context(), "k", "f")
			a, err := ts.Append(ctx, id, thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock("once")}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, a.ID+a.Blocks[0].ID+a.Position.String())
		}
		if len(slices.Compact(ids)) != 1 {
			t.Errorf("got different messages: %v", ids)
		}
		if got, want := texts(messages(t, ts, id, nil).Items), "u:once"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
