package linear

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Report is the result of a check.
type Report struct {
	Kinds     map[Kind]Count
	Took      time.Duration
	Illegal   []string // parts that are not linearizable
	Undecided []string // parts that took too long to check
	Picture   string   // file with a visualization (HTML) of one such part; "": none
}

// Count counts what was checked of one kind.
type Count struct{ Parts, Ops, Unknown int }

// OK reports whether an order was found for every part.
func (r Report) OK() bool { return len(r.Illegal)+len(r.Undecided) == 0 }

// Ops returns how many operations were checked.
func (r Report) Ops() (n int) {
	for _, c := range r.Kinds {
		n += c.Ops
	}
	return n
}

// String returns the report in a few lines: what was checked, then the verdict.
func (r Report) String() string {
	var b strings.Builder
	total := Count{}
	for _, k := range []Kind{Record, Lock, Line} {
		c := r.Kinds[k]
		fmt.Fprintf(&b, "%-7s %7d operations in %4d parts, %d without an answer\n", k, c.Ops, c.Parts, c.Unknown)
		total = Count{total.Parts + c.Parts, total.Ops + c.Ops, total.Unknown + c.Unknown}
	}
	fmt.Fprintf(&b, "%-7s %7d operations in %4d parts, %d without an answer, checked in %v: ",
		"all", total.Ops, total.Parts, total.Unknown, r.Took.Round(time.Millisecond))
	if r.OK() {
		b.WriteString("linearizable")
		return b.String()
	}
	few := func(parts []string) []string { return parts[:min(len(parts), 5)] }
	fmt.Fprintf(&b, "NOT linearizable: %d parts, %q; undecided: %d parts, %q; see %s",
		len(r.Illegal), few(r.Illegal), len(r.Undecided), few(r.Undecided), r.Picture)
	return b.String()
}

// Check searches, for each part of ops, for an order that explains it, for at most
// limit per part. It writes a visualization of one part without an order to a temporary
// file.
func Check(ops []Op, limit time.Duration) Report {
	begin := time.Now()
	r := Report{Kinds: make(map[Kind]Count)}
	parts := split(ops)
	verdicts := make([]porcupine.CheckResult, len(parts))
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				verdicts[i] = porcupine.CheckOperationsTimeout(model(parts[i][0].Kind), history(parts[i]), limit)
			}
		})
	}
	for i, part := range parts {
		c := r.Kinds[part[0].Kind]
		c.Parts++
		c.Ops += len(part)
		for _, op := range part {
			if op.Outcome == Unknown {
				c.Unknown++
			}
		}
		r.Kinds[part[0].Kind] = c
		next <- i
	}
	close(next)
	wg.Wait()
	var worst []Op // the shortest illegal part, otherwise an undecided one
	for i, part := range parts {
		name := string(part[0].Kind) + " " + part[0].Part
		switch verdicts[i] {
		case porcupine.Illegal:
			if len(r.Illegal) == 0 || len(part) < len(worst) {
				worst = part
			}
			r.Illegal = append(r.Illegal, name)
		case porcupine.Unknown:
			if worst == nil {
				worst = part
			}
			r.Undecided = append(r.Undecided, name)
		}
	}
	if worst != nil {
		r.Picture = picture(worst, limit)
	}
	r.Took = time.Since(begin)
	return r
}

// split returns the parts of a history, in the order of their names.
func split(ops []Op) [][]Op {
	type id struct {
		kind Kind
		part string
	}
	byID := make(map[id][]Op)
	for _, op := range ops {
		at := id{op.Kind, op.Part}
		byID[at] = append(byID[at], op)
	}
	parts := make([][]Op, 0, len(byID))
	for _, part := range byID {
		parts = append(parts, part)
	}
	slices.SortFunc(parts, func(a, b []Op) int {
		return cmp.Or(cmp.Compare(a[0].Kind, b[0].Kind), cmp.Compare(a[0].Part, b[0].Part))
	})
	return parts
}

func model(k Kind) porcupine.Model {
	seed := maphash.MakeSeed()
	return porcupine.Model{
		Init: func() any { return initial(k) },
		Step: func(s, in, _ any) (bool, any) {
			after, ok := s.(state).step(in.(*Op))
			return ok, after
		},
		Hash:              func(s any) uint64 { return maphash.Comparable(seed, s.(state)) },
		DescribeOperation: func(in, _ any) string { return in.(*Op).String() },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
}

func history(part []Op) []porcupine.Operation {
	if part[0].Kind == Line {
		part = hinted(part)
	}
	out := make([]porcupine.Operation, len(part))
	for i := range part {
		op := &part[i]
		end := int64(op.Return)
		if op.Outcome == Unknown {
			end = forever
		}
		out[i] = porcupine.Operation{ClientId: op.Client, Input: op, Call: int64(op.Call), Return: end}
	}
	return out
}

// picture writes a visualization of how far a part can be explained, and returns the
// name of its file.
func picture(part []Op, limit time.Duration) string {
	_, info := porcupine.CheckOperationsVerbose(model(part[0].Kind), history(part), limit)
	f, err := os.CreateTemp("", "thole-linear-*.html")
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if err := porcupine.Visualize(model(part[0].Kind), info, f); err != nil {
		return err.Error()
	}
	return f.Name()
}
