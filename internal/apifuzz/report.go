package apifuzz

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
)

// Report is the result of a run.
type Report struct {
	Seed uint64

	mu       sync.Mutex
	counts   []*Count
	of       map[string]*Count
	failures map[string]*Failure
	order    []string
	reasons  map[string]map[string]int // of refused valid requests
}

// Count counts the answers of an operation.
type Count struct {
	Operation string
	op        *operation
	Good      int // 2xx and 304
	Refused   int // 4xx
	Other     int // 501
}

// Failure is an answer that must not occur.
type Failure struct {
	What    string
	Request string // the first one
	Times   int
}

func newReport(d *document, seed uint64) *Report {
	r := &Report{Seed: seed, of: make(map[string]*Count), failures: make(map[string]*Failure), reasons: make(map[string]map[string]int)}
	for _, op := range d.operations {
		c := &Count{Operation: op.name, op: op}
		r.counts, r.of[op.name] = append(r.counts, c), c
	}
	return r
}

// rarest returns an operation with few successes.
func (r *Report) rarest() *operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	best := r.counts[rand.IntN(len(r.counts))]
	for range 8 {
		if c := r.counts[rand.IntN(len(r.counts))]; c.Good < best.Good {
			best = c
		}
	}
	return best.op
}

func (r *Report) count(req *request, status int, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.of[req.op.name]
	switch {
	case status < 400:
		c.Good++
	case status < 500:
		c.Refused++
	default:
		c.Other++
	}
	if req.valid && status >= 400 {
		if r.reasons[c.Operation] == nil {
			r.reasons[c.Operation] = make(map[string]int)
		}
		if len(r.reasons[c.Operation]) < 20 {
			r.reasons[c.Operation][fmt.Sprintf("%d %.300s", status, body)]++
		}
	}
}

func (r *Report) fail(req *request, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what := fmt.Sprintf(format, args...)
	key := req.op.name + " " + strings.Map(func(c rune) rune { // without numbers, so that equal failures have one key
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'f' {
			return -1
		}
		return c
	}, what[:min(len(what), 60)])
	f := r.failures[key]
	if f == nil {
		if len(r.order) >= 200 {
			return
		}
		var header strings.Builder
		auth := req.header.Get("Authorization")
		req.header.Del("Authorization")
		req.header.Write(&header)
		req.header.Set("Authorization", auth)
		f = &Failure{
			What:    what,
			Request: fmt.Sprintf("%s %.600s?%.600s\n%s\n%.1500q", req.method, req.path, strings.Join(req.query, "&"), header.String(), req.body),
		}
		r.failures[key] = f
		r.order = append(r.order, key)
	}
	f.Times++
}

// Failures returns the answers that must not occur, one of each kind.
func (r *Report) Failures() []Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Failure
	for _, key := range r.order {
		all = append(all, *r.failures[key])
	}
	return all
}

// Counts returns the counts of all operations.
func (r *Report) Counts() []Count {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Count
	for _, c := range r.counts {
		all = append(all, *c)
	}
	return all
}

// Reasons returns why valid requests for an operation were refused.
func (r *Report) Reasons(operation string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, reason := range sortedKeys(r.reasons[operation]) {
		all = append(all, fmt.Sprintf("%d × %s", r.reasons[operation][reason], reason))
	}
	return all
}

// String returns a table of all operations.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\n%8s %8s %6s\n", r.Seed, "2xx", "4xx", "501")
	var good, refused, other int
	for _, c := range r.Counts() {
		fmt.Fprintf(&b, "%8d %8d %6d  %s\n", c.Good, c.Refused, c.Other, c.Operation)
		good, refused, other = good+c.Good, refused+c.Refused, other+c.Other
	}
	fmt.Fprintf(&b, "%8d %8d %6d  all\n", good, refused, other)
	return b.String()
}
