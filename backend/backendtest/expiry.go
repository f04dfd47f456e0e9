package backendtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/thole-dev/thole/journal"
)

func expiryCases() []testCase {
	return []testCase{
		{"expiry/expired records are returned as they are", expiryReturned},
		{"expiry/an expired plain record counts as absent to a check", expiryPlain},
		{"expiry/an expired notify record is a conflict to check and write", expiryNotify},
		{"expiry/checks come before writes, in order", expiryOrder},
		{"expiry/a record expires at its time, not before", expiryEdge},
		{"expiry/within its time a notify record is like any other", expiryBefore},
		{"expiry/list shows what is due, in key order", expiryList},
		{"expiry/spaces with something due are never left out", expirySpaces},
	}
}

// expiring returns a write of a record that expires at t.
func expiring(key string, t time.Time, notify bool) journal.Write {
	return journal.Write{Key: key, Value: json.RawMessage(`1`), Expires: t, Notify: notify}
}

var (
	due   = now.Add(time.Minute)
	later = now.Add(2 * time.Minute)
)

func expiryReturned(e *env) {
	c := commitOf(expiring("notify", due, true), expiring("plain", due, false))
	want := recordsOf(c, e.mustCommit(c))
	e.must(later, event("s", "s.made"))
	e.equal("get", e.get(space, "notify", "plain"), want)
	e.equal("list", e.list(space, journal.ListQuery{}), want)
}

func expiryPlain(e *env) {
	r := e.must(expiring("k", due, false))
	c := e.conflict(later, journal.Check{Key: "k", At: r.Last}, set("k", `2`))
	e.equal("conflict", *c, journal.ConflictError{Space: space, Check: journal.Check{Key: "k", At: r.Last}})
	e.must(later, journal.Check{Key: "k"}, event("s", "s.made"))
	e.equal("a check leaves it there", e.get(space, "k")[0].Version, r.Last)
	w := commitOf(later, journal.Check{Key: "k"}, set("k", `2`))
	e.equal("replaced", recordsOf(w, e.mustCommit(w)), e.get(space, "k"))
	e.must(expiring("l", due, false))
	e.must(later, expiring("l", due, false)) // expiry does not block writes, even one that is expired at once
	e.must(later, journal.Write{Key: "l"})
	e.equal("deleted", e.get(space, "l"), []journal.Record{{}})
}

func expiryNotify(e *env) {
	r := e.must(expiring("k", due, true), set("l", `1`), event("s", "s.made"))
	byWrite := journal.ConflictError{Space: space, Check: journal.Check{Key: "k"}, Actual: r.Last, Expired: true}
	e.unchanged(space, func() {
		for _, at := range []journal.Position{{}, r.Last, seq(r.Last, 1)} {
			check := journal.Check{Key: "k", At: at}
			want := byWrite
			want.Check = check
			e.equal("check", *e.conflict(later, check, event("s", "s.seen"), set("l", `2`)), want)
			e.equal("check and write", *e.conflict(later, check, journal.Write{Key: "k"}), want)
		}
		for _, w := range []journal.Write{set("k", `2`), {Key: "k"}, expiring("k", later, true)} {
			e.equal("write", *e.conflict(later, event("s", "s.seen"), set("l", `2`), w), byWrite)
		}
	})
	e.must(later, journal.Check{Key: "l", At: r.Last}, set("l", `2`), event("s", "s.seen")) // a commit that does not touch it succeeds
	results := e.commit(commitOf(later, set("k", `2`)), commitOf(later, event("s", "s.seen")))
	e.ok(results[0].Conflict != nil && results[1].Conflict == nil, "batch: got %v", results)
}

func expiryOrder(e *env) {
	r := e.must(expiring("k", due, true), set("l", `1`))
	fails := journal.Check{Key: "l"}
	holds := journal.Check{Key: "l", At: r.Last}
	c := e.conflict(later, fails, set("k", `2`))
	e.ok(!c.Expired && c.Check == fails, "check before write: got %v, want the check", c)
	c = e.conflict(later, fails, journal.Check{Key: "k", At: r.Last}, set("k", `2`))
	e.ok(!c.Expired && c.Check == fails, "first check: got %v, want the first", c)
	c = e.conflict(later, holds, journal.Check{Key: "k", At: r.Last}, fails, event("s", "s.seen"))
	e.ok(c.Expired && c.Check.Key == "k", "second check: got %v, want the expired one", c)
	c = e.conflict(later, holds, set("a", `1`), set("k", `2`))
	e.ok(c.Expired && c.Check == journal.Check{Key: "k"}, "write: got %v, want the expired one", c)
}

func expiryEdge(e *env) {
	r := e.must(expiring("notify", due, true), expiring("plain", due, false))
	before := due.Add(-time.Microsecond)
	e.must(before, journal.Check{Key: "notify", At: r.Last}, journal.Check{Key: "plain", At: r.Last}, event("s", "s.made"))
	e.ok(e.conflict(due, journal.Check{Key: "notify", At: r.Last}, event("s", "s.made")).Expired, "notify at its time: not expired")
	e.must(due, journal.Check{Key: "plain"}, event("s", "s.made"))
	e.must(before, journal.Check{Key: "plain", At: r.Last}, event("s", "s.made")) // only Now decides, even if it goes back
}

func expiryBefore(e *env) {
	r := e.must(expiring("k", due, true))
	r = e.must(journal.Check{Key: "k", At: r.Last}, expiring("k", later, true))
	e.must(due, journal.Check{Key: "k", At: r.Last}, event("s", "s.made")) // renewed
	e.must(due, journal.Check{Key: "k", At: r.Last}, journal.Write{Key: "k"})
	e.must(later, journal.Check{Key: "k"}, set("k", `3`)) // deleted in time: nothing left to sweep
	e.must(later.Add(time.Hour), set("k", `4`))           // written without expiry
	e.equal("due", e.list(space, journal.ListQuery{DueBy: later.Add(time.Hour)}), []journal.Record{})
}

func expiryList(e *env) {
	var want []string
	for i := range 12 {
		key := fmt.Sprintf("k/%02d", i)
		e.must(expiring(key, due.Add(time.Duration(12-i)*time.Second), i%2 == 0))
		if i >= 6 {
			want = append(want, key)
		}
	}
	e.must(set("k/never", `1`), set("a", `1`))
	edge := due.Add(6 * time.Second)
	for limit := 1; limit < 8; limit++ {
		q := journal.ListQuery{DueBy: edge, Limit: limit}
		e.equal(fmt.Sprintf("%+v", q), keysOf(e.listAll(space, q)), want)
	}
	e.equal("before the edge", keysOf(e.list(space, journal.ListQuery{DueBy: edge.Add(-time.Microsecond)})), want[1:])
	e.equal("with prefix and after", keysOf(e.list(space, journal.ListQuery{Prefix: "k/", After: "k/08", DueBy: edge})), want[3:])
	e.equal("other prefix", keysOf(e.list(space, journal.ListQuery{Prefix: "l/", DueBy: edge})), []string{})
	e.equal("nothing is due", keysOf(e.list(space, journal.ListQuery{DueBy: now})), []string{})
	e.must(edge, journal.Write{Key: "k/07"}, set("k/09", `1`))
	e.equal("after delete and rewrite", keysOf(e.list(space, journal.ListQuery{DueBy: edge})), []string{"k/06", "k/08", "k/10", "k/11"})
}

func expirySpaces(e *env) {
	for i := range 6 {
		e.must(fmt.Sprintf("user:%d", i), set("k", `1`), expiring("l", due.Add(time.Duration(i)*time.Second), i%2 == 0))
	}
	e.must("user:never", set("k", `1`))
	for i := range 6 {
		for limit := 0; limit < 3; limit++ {
			got := e.spaces(journal.SpacesQuery{DueBy: due.Add(time.Duration(i) * time.Second), Limit: limit})
			for j := range i + 1 {
				e.ok(slices.Contains(got, fmt.Sprintf("user:%d", j)), "due by %d: got %q, want user:%d in it", i, got, j)
			}
			e.ok(slices.IsSorted(got), "got %q, want byte order", got)
		}
	}
	e.must("user:5", expiring("early", now.Add(time.Second), false))
	e.ok(slices.Contains(e.spaces(journal.SpacesQuery{DueBy: now.Add(time.Second)}), "user:5"), "an earlier expiry was missed")
}
