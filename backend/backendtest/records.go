package backendtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole/journal"
)

func recordCases() []testCase {
	return []testCase{
		{"record/get answers in the order of the keys", recordGet},
		{"record/nothing is in a space that does not exist", recordNoSpace},
		{"record/list is in byte order", recordOrder},
		{"record/a prefix selects exactly what starts with it", recordPrefix},
		{"record/after and limit page without gap or repeat", recordPaging},
		{"record/a page holds at most MaxPage", recordMaxPage},
	}
}

func recordGet(e *env) {
	c := commitOf(set("a", `1`), set("b", `2`), set("c", `3`))
	want := recordsOf(c, e.mustCommit(c))
	a, b, none := want[0], want[1], journal.Record{}
	e.equal("several", e.get(space, "b", "absent", "a", "b", "a/"), []journal.Record{b, none, a, b, none})
	e.equal("none", e.get(space), []journal.Record{})
	var keys []string
	for i := range 500 {
		keys = append(keys, fmt.Sprint("absent", i))
	}
	got := e.get(space, append(keys, "a")...)
	e.equal("the last of many", got[500], a)
	e.ok(!got[0].Exists(), "an absent one: got %v", got[0])
}

func recordNoSpace(e *env) {
	e.equal("get", e.get(space, "a", "b"), []journal.Record{{}, {}})
	e.equal("list", e.list(space, journal.ListQuery{}), []journal.Record{})
	page := e.readPage(space, journal.ReadQuery{})
	e.ok(len(page.Events) == 0 && page.Next.IsZero(), "read: got %v, want an empty page", page)
}

func recordOrder(e *env) {
	keys := []string{"b", "a", "B", "a/b", "a-b", "a0", "aa", "é", "e", "z", "~", "😀", "a b", "a.b", "10", "9", "a/", "_", "A", "\u0301", "ａ"}
	for _, k := range keys {
		e.must(set(k, `1`))
	}
	slices.Sort(keys)
	e.equal("keys", keysOf(e.list(space, journal.ListQuery{})), keys)
}

func recordPrefix(e *env) {
	keys := []string{
		"a", "a ", "a!", "a-", "a.", "a./x", "a/", "a/ ", "a//", "a/0", "a/b", "a/b/", "a/b/c", "a/é", "a/😀", "a/\U0010ffff",
		"a0", "aa", "aa/b", "A/b", "a%/b", "a_/b", "ab/c", "b/", "b/a", "%/x", "_/x", "é/x", "é/y", "è/x", "*/x", "[a]/x", `a\/x`,
	}
	for _, k := range keys {
		e.must(set(k, `1`))
	}
	slices.Sort(keys)
	for _, prefix := range []string{"a/", "a//", "a/b/", "aa/", "A/", "b/", "a%/", "a_/", "%/", "_/", "é/", "*/", "[a]/", `a\/`, "absent/", "/"} {
		var want []string
		for _, k := range keys {
			if strings.HasPrefix(k, prefix) {
				want = append(want, k)
			}
		}
		e.equal("prefix "+prefix, keysOf(e.list(space, journal.ListQuery{Prefix: prefix})), append([]string{}, want...))
		e.equal("prefix by pages "+prefix, keysOf(e.listAll(space, journal.ListQuery{Prefix: prefix, Limit: 2})), append([]string{}, want...))
	}
	for _, after := range []string{"a", "a/", "a/b", "a/c", "b", "A", "a0", "a/\U0010ffff"} {
		want := []string{}
		for _, k := range keys {
			if strings.HasPrefix(k, "a/") && k > after {
				want = append(want, k)
			}
		}
		e.equal("prefix a/ after "+after, keysOf(e.list(space, journal.ListQuery{Prefix: "a/", After: after})), want)
	}
}

func recordPaging(e *env) {
	var keys []string
	for i := range 23 {
		keys = append(keys, fmt.Sprintf("k/%02d", i))
		e.must(set(keys[i], fmt.Sprint(i)))
	}
	for limit := 1; limit <= 24; limit++ {
		e.equal(fmt.Sprint("pages of ", limit), keysOf(e.listAll(space, journal.ListQuery{Limit: limit})), keys)
	}
	e.equal("after an absent key", keysOf(e.list(space, journal.ListQuery{After: "k/20x"})), []string{"k/21", "k/22"})
	e.equal("after the last", keysOf(e.list(space, journal.ListQuery{After: "k/22"})), []string{})
	e.equal("limit", keysOf(e.list(space, journal.ListQuery{After: "k/03", Limit: 2})), []string{"k/04", "k/05"})
}

func recordMaxPage(e *env) {
	const n = journal.MaxPage + 30
	c := commitOf()
	for i := range n {
		c.Writes = append(c.Writes, set(fmt.Sprintf("k%05d", i), `1`))
		if len(c.Writes) == journal.MaxCommitItems || i == n-1 {
			e.mustCommit(c)
			c.Writes = nil
		}
	}
	for _, limit := range []int{0, journal.MaxPage, journal.MaxPage + 20} {
		e.equal(fmt.Sprint("limit ", limit), len(e.list(space, journal.ListQuery{Limit: limit})), journal.MaxPage)
	}
	e.equal("all", len(e.listAll(space, journal.ListQuery{})), n)
}
