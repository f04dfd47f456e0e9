package linear

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at makes a history of one part: each operation is "call return text", in ms,
// with text as [Op.String] prints it.
func at(t *testing.T, kind Kind, lines ...string) (ops []Op) {
	t.Helper()
	for client, text := range lines {
		var call, end int
		var do string
		if _, err := fmt.Sscan(text, &call, &end, &do); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		in, out, _ := strings.Cut(strings.Join(strings.Fields(text)[2:], " "), " → ")
		op := Op{Kind: kind, Part: "p", Client: client, Do: Verb(do), Outcome: Done, TTL: time.Second,
			Call: time.Duration(call) * time.Millisecond, Return: time.Duration(end) * time.Millisecond}
		in, op.If, _ = strings.Cut(in, " if ")
		op.Value = strings.TrimPrefix(strings.TrimPrefix(in, do), " ")
		switch {
		case out == "refused":
			op.Outcome = Refused
		case out == "?":
			op.Outcome = Unknown
		case out == "nothing":
		case op.Do == Get || op.Do == Claim:
			op.Value, op.Version, _ = strings.Cut(out, " at ")
		case out != "done":
			op.Version = out
		}
		ops = append(ops, op)
	}
	return ops
}

func TestAHistoryIsAcceptedIfAnOrderExplainsIt(t *testing.T) {
	for name, c := range map[string]struct {
		kind Kind
		ok   bool
		ops  []string
	}{
		"a read of what is there":                     {Record, true, []string{"0 1 put a → v1", "2 3 get → a at v1"}},
		"a read from the past":                        {Record, false, []string{"0 1 put a → v1", "2 3 put b → v2", "4 5 get → a at v1"}},
		"a read of either while it is written":        {Record, true, []string{"0 1 put a → v1", "2 9 put b → v2", "3 4 get → a at v1", "5 6 get → b at v2"}},
		"a read that goes back":                       {Record, false, []string{"0 1 put a → v1", "2 9 put b → v2", "3 4 get → b at v2", "5 6 get → a at v1"}},
		"a lost update":                               {Record, false, []string{"0 1 put a → v1", "2 9 put b if v1 → v2", "2 9 put c if v1 → v3"}},
		"one of two updates wins":                     {Record, true, []string{"0 1 put a → v1", "2 9 put b if v1 → v2", "2 9 put c if v1 → refused"}},
		"an update refused without a reason":          {Record, false, []string{"0 1 put a → v1", "2 9 put b if v1 → refused"}},
		"a version older than the one before":         {Record, false, []string{"0 1 put a → v2", "2 3 put b → v1"}},
		"created twice":                               {Record, false, []string{"0 1 put a if absent → v1", "2 3 put b if absent → v2"}},
		"created again once deleted":                  {Record, true, []string{"0 1 put a if absent → v1", "2 3 delete if v1 → done", "4 5 get → nothing", "6 7 put b if absent → v2"}},
		"a delete that deleted nothing":               {Record, false, []string{"0 1 put a → v1", "2 3 delete if v1 → done", "4 5 get → a at v1"}},
		"without an answer, and it happened":          {Record, true, []string{"0 1 put a → v1", "2 3 put b if v1 → ?", "4 5 get → b at v2", "6 7 put c if v2 → v3"}},
		"without an answer, and it did not":           {Record, true, []string{"0 1 put a → v1", "2 3 put b if v1 → ?", "4 5 get → a at v1", "6 7 put c if v1 → v2"}},
		"without an answer, and it happened late":     {Record, true, []string{"0 1 put a → v1", "2 3 put b → ?", "4 5 get → a at v1", "6 7 get → b at v2", "8 9 get → b at v2"}},
		"without an answer, seen and gone again":      {Record, false, []string{"0 1 put a → v1", "2 3 put b if v1 → ?", "4 5 get → b at v2", "6 7 get → a at v1"}},
		"without an answer, under two versions":       {Record, false, []string{"0 1 put b → ?", "2 3 get → b at v1", "4 5 get → b at v2"}},
		"two holders":                                 {Lock, false, []string{"0 1 acquire → t1", "2 3 acquire → t2"}},
		"one holder after the other":                  {Lock, true, []string{"0 1 acquire → t1", "2 3 acquire → refused", "4 5 release if t1 → done", "6 7 acquire → t2"}},
		"a dead holder is replaced":                   {Lock, true, []string{"0 1 acquire → t1", "1100 1101 acquire → t2", "1102 1103 write if t1 → refused", "1104 1105 write if t2 → done"}},
		"a late holder that nobody replaced writes":   {Lock, true, []string{"0 1 acquire → t1", "5000 5001 write if t1 → done", "5002 5003 acquire → t2"}},
		"a replaced holder writes":                    {Lock, false, []string{"0 1 acquire → t1", "1100 1101 acquire → t2", "1102 1103 write if t1 → done"}},
		"a fenced holder writes again":                {Lock, false, []string{"0 1 acquire → t1", "1100 1101 write if t1 → refused", "1102 1103 write if t1 → done"}},
		"fenced before its time":                      {Lock, false, []string{"0 1 acquire → t1", "2 3 write if t1 → refused"}},
		"a free lock is refused":                      {Lock, false, []string{"0 1 acquire → t1", "2 3 release if t1 → done", "4 5 acquire → refused"}},
		"a token older than the one before":           {Lock, false, []string{"0 1 acquire → t2", "2 3 release if t2 → done", "4 5 acquire → t1"}},
		"acquired without an answer":                  {Lock, true, []string{"0 1 acquire → ?", "2 3 acquire → refused", "1200 1201 acquire → t2"}},
		"not acquired without an answer":              {Lock, true, []string{"0 1 acquire → ?", "2 3 acquire → t1", "4 5 write if t1 → done"}},
		"refused by one without an answer, then free": {Lock, false, []string{"0 1 acquire → ?", "2 3 acquire → refused", "4 5 acquire → t2"}},
		"released without an answer":                  {Lock, true, []string{"0 1 acquire → t1", "2 3 release if t1 → ?", "4 5 acquire → refused", "6 7 acquire → t2"}},
		"released once it was taken away":             {Lock, true, []string{"0 1 acquire → t1", "1100 1101 release if t1 → done", "1102 1103 release if t1 → done"}},
		"first come first served":                     {Line, true, []string{"0 1 start 1 → done", "2 3 start 2 → done", "4 5 claim → 1 at t1", "6 7 finish 1 if t1 → done", "8 9 claim → 2 at t2"}},
		"out of order":                                {Line, false, []string{"0 1 start 1 → done", "2 3 start 2 → done", "4 5 claim → 2 at t1"}},
		"queued at once, in either order":             {Line, true, []string{"0 9 start 1 → done", "0 9 start 2 → done", "10 11 claim → 2 at t1"}},
		"claimed twice":                               {Line, false, []string{"0 1 start 1 → done", "2 3 claim → 1 at t1", "2000 2001 claim → 1 at t2"}},
		"two at a time":                               {Line, false, []string{"0 1 start 1 → done", "0 1 start 2 → done", "2 3 claim → 1 at t1", "4 5 claim → 2 at t2"}},
		"the next after a crash":                      {Line, true, []string{"0 1 start 1 → done", "2 3 start 2 → done", "4 5 claim → 1 at t1", "1100 1101 claim → 2 at t2", "1102 1103 look 1 → crashed", "1104 1105 finish 1 if t1 → refused"}},
		"finished after a crash":                      {Line, false, []string{"0 1 start 1 → done", "2 3 start 2 → done", "4 5 claim → 1 at t1", "1100 1101 claim → 2 at t2", "1102 1103 finish 1 if t1 → done"}},
		"finished twice":                              {Line, false, []string{"0 1 start 1 → done", "4 5 claim → 1 at t1", "6 7 finish 1 if t1 → done", "8 9 finish 1 if t1 → done"}},
		"crashed before its time":                     {Line, false, []string{"0 1 start 1 → done", "4 5 claim → 1 at t1", "6 7 look 1 → crashed"}},
		"ended and running again":                     {Line, false, []string{"0 1 start 1 → done", "4 5 claim → 1 at t1", "6 7 finish 1 if t1 → done", "8 9 look 1 → succeeded", "10 11 look 1 → running"}},
		"finished without an answer":                  {Line, true, []string{"0 1 start 1 → done", "2 3 start 2 → done", "4 5 claim → 1 at t1", "6 7 finish 1 if t1 → ?", "8 9 look 1 → running", "10 11 claim → 2 at t2", "12 13 look 1 → succeeded"}},
		"claimed without an answer":                   {Line, true, []string{"0 1 start 1 → done", "2 3 start 2 → done", "4 5 claim → ?", "6 7 look 1 → running", "1200 1201 claim → 2 at t2"}},
		"queued without an answer":                    {Line, true, []string{"0 1 start 1 → ?", "2 3 start 2 → done", "4 5 claim → 1 at t1", "6 7 look 2 → queued"}},
		"not queued without an answer":                {Line, true, []string{"0 1 start 1 → ?", "2 3 start 2 → done", "4 5 claim → 2 at t1"}},
	} {
		r := Check(at(t, c.kind, c.ops...), time.Minute)
		if r.OK() != c.ok {
			t.Errorf("%s: got %v, want %v\n%s", name, r.OK(), c.ok, strings.Join(c.ops, "\n"))
		}
		if (r.Picture != "") == c.ok {
			t.Errorf("%s: got picture %q", name, r.Picture)
		} else if r.Picture != "" {
			html, err := os.ReadFile(r.Picture)
			if err != nil || !strings.Contains(string(html), "refused") && !strings.Contains(string(html), "→") {
				t.Errorf("%s: its picture: %v", name, err)
			}
			os.Remove(r.Picture)
		}
	}
}

func TestPartsAreCheckedOnTheirOwnAndCounted(t *testing.T) {
	var ops []Op
	for _, part := range []string{"a", "b", "c"} {
		for _, op := range at(t, Record, "0 1 put x → v1", "2 3 put y → ?", "4 5 get → x at v1") {
			op.Part = part
			if part == "b" && op.Do == Get {
				op.Value = "another"
			}
			ops = append(ops, op)
		}
	}
	r := Check(append(ops, at(t, Lock, "0 1 acquire → t1")...), time.Minute)
	defer os.Remove(r.Picture)
	want := map[Kind]Count{Record: {3, 9, 3}, Lock: {1, 1, 0}}
	if fmt.Sprint(r.Kinds) != fmt.Sprint(want) || r.Ops() != 10 || fmt.Sprint(r.Illegal) != "[record b]" {
		t.Errorf("got %+v", r)
	}
	if text := r.String(); !strings.Contains(text, "NOT linearizable") || !strings.Contains(text, "record b") || !strings.Contains(text, r.Picture) {
		t.Errorf("got %s", text)
	}
}

// Clients work on plain memory, which is linearizable; some of them get no answer.
func TestWhatAMutexDidIsAccepted(t *testing.T) {
	h := New()
	var mu sync.Mutex
	var version, value string
	n := 0
	var wg sync.WaitGroup
	for client := range 8 {
		wg.Go(func() {
			seen := Absent
			for i := range 100 {
				if rand.IntN(2) == 0 {
					op := h.Do(Op{Kind: Record, Part: "p", Client: client, Do: Get}, func(op *Op) Outcome {
						mu.Lock()
						defer mu.Unlock()
						op.Version, op.Value = version, value
						return Done
					})
					if seen = op.Version; seen == "" {
						seen = Absent
					}
					continue
				}
				h.Do(Op{Kind: Record, Part: "p", Client: client, Do: Put, If: seen, Value: fmt.Sprint(client, "-", i)}, func(op *Op) Outcome {
					mu.Lock()
					defer mu.Unlock()
					if rand.IntN(40) == 0 {
						return Unknown
					}
					if op.If != version && !(op.If == Absent && version == "") {
						return Refused
					}
					n++
					version, value = fmt.Sprintf("%08d", n), op.Value
					if rand.IntN(40) == 0 {
						return Unknown
					}
					op.Version = version
					return Done
				})
			}
		})
	}
	wg.Wait()
	if r := Check(h.Ops(), time.Minute); !r.OK() || r.Kinds[Record].Unknown == 0 {
		t.Errorf("%v", r)
	} else {
		t.Log(r)
	}
}

// Many pairs of jobs are queued concurrently, with unanswered operations in between,
// before the claims show their order.
func TestManyGuessesAreNoLongSearch(t *testing.T) {
	var lines []string
	for i := 0; i < 60; i += 2 {
		lines = append(lines, fmt.Sprintf("%d %d start %d → done", i, i+1, i), fmt.Sprintf("%d %d start %d → done", i, i+1, i+1))
	}
	lines = append(lines, "10 11 start 60 → ?", "20 21 claim → ?", "30 31 start 61 → ?", "40 41 claim → ?")
	for i := range 60 {
		job := i ^ 1 // the later one of each pair first
		lines = append(lines, fmt.Sprintf("%d %d claim → %d at t%02d", 100+4*i, 101+4*i, job, i), fmt.Sprintf("%d %d finish %d if t%02d → done", 102+4*i, 103+4*i, job, i))
	}
	ops := at(t, Line, lines...)
	if r := Check(ops, time.Minute); !r.OK() || r.Took > 10*time.Second {
		t.Errorf("%v", r)
	}
	ops[len(ops)-1].If = "t00"
	r := Check(ops, time.Minute)
	os.Remove(r.Picture)
	if len(r.Illegal) != 1 || r.Took > 10*time.Second {
		t.Errorf("with a wrong token at the end: %v", r)
	}
}

func TestWhatSaysNothingIsNotRecorded(t *testing.T) {
	h := New()
	for do, outcome := range map[Verb]Outcome{Get: Unknown, Look: Unknown, Write: Unknown, Put: Never, Acquire: Never} {
		h.Do(Op{Do: do}, func(*Op) Outcome { return outcome })
	}
	if ops := h.Ops(); len(ops) != 0 {
		t.Errorf("got %v", ops)
	}
}
