package backendtest

import (
	"fmt"
	"slices"

	"github.com/thole-dev/thole/journal"
)

func spacesCases() []testCase {
	return []testCase{
		{"space/spaces are listed in byte order and paged", spacesList},
		{"space/only spaces with a successful commit exist", spacesExist},
		{"space/heads answer in the order asked", spacesHeads},
		{"space/a page holds at most MaxPage", spacesMaxPage},
	}
}

func spacesList(e *env) {
	names := []string{"user:b", "user:a", "global", "project:shop", "user:B", "user:é", "user:😀", "user:a b", "user:a%", "user:a_", "user:10", "user:9", "org:z"}
	for _, n := range names {
		e.must(n, event("s", "s.made"))
	}
	slices.Sort(names)
	for limit := 0; limit <= len(names)+1; limit++ {
		e.equal(fmt.Sprint("pages of ", limit), e.spaces(journal.SpacesQuery{Limit: limit}), names)
	}
	for i, n := range names {
		e.equal("after "+n, e.spaces(journal.SpacesQuery{After: n}), names[i+1:])
	}
	e.equal("after a name that is not there", e.spaces(journal.SpacesQuery{After: "user:é0"}), names[slices.Index(names, "user:é")+1:])
}

func spacesExist(e *env) {
	e.equal("at first", e.spaces(journal.SpacesQuery{}), []string{})
	e.conflict("user:1", journal.Check{Key: "k", At: journal.Position{Epoch: "0001aaaaaaaa", Seq: 1}}, set("k", `1`))
	e.get("user:2", "k")
	e.list("user:3", journal.ListQuery{})
	e.readPage("user:4", journal.ReadQuery{})
	e.head("user:5")
	e.equal("after a conflict and reads", e.spaces(journal.SpacesQuery{}), []string{})
	e.must("user:6", journal.Write{Key: "absent"})
	e.equal("after a commit", e.spaces(journal.SpacesQuery{}), []string{"user:6"})
}

func spacesHeads(e *env) {
	a := e.must("user:a", event("s", "s.made")).Last
	b := e.must("user:b", event("s", "s.made"), event("s", "s.made")).Last
	var got []journal.Position
	asked := []string{"user:b", "user:none", "user:a", "user:b", "user:A"}
	for i, h := range e.heads(asked...) {
		e.equal("name", h.Space, asked[i])
		got = append(got, h.Last)
	}
	e.equal("heads", got, []journal.Position{b, {}, a, b, {}})
	e.equal("none", len(e.heads()), 0)
	e.equal("absent", e.heads("user:none"), []journal.Head{{Space: "user:none"}})
}

func spacesMaxPage(e *env) {
	const n = journal.MaxPage + 10
	var batch []journal.Commit
	for i := range n {
		batch = append(batch, commitOf(fmt.Sprintf("user:%05d", i), set("k", `1`)))
	}
	e.commit(batch...)
	for _, limit := range []int{0, journal.MaxPage, journal.MaxPage + 5} {
		names, err := e.b.Spaces(e.ctx, journal.SpacesQuery{Limit: limit})
		e.ok(err == nil && len(names) == journal.MaxPage, "limit %d: got %d names, %v", limit, len(names), err)
	}
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("user:%05d", i))
	}
	e.equal("all", e.spaces(journal.SpacesQuery{}), all)
	for _, h := range e.heads(all...) {
		e.ok(h.Last.Seq == 1, "head of %s: got %v", h.Space, h.Last)
	}
}
