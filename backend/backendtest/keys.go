package backendtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole/journal"
)

func keyCases() []testCase {
	return []testCase{
		{"name/any name is kept as it is as key, stream, type and subject", keysRoundTrip},
		{"name/names that look alike are different", keysDistinct},
		{"name/any name can name a space", keysSpaces},
		{"name/checks take any name", keysChecks},
	}
}

// weirdNames returns names that the Store allows and that engines may get wrong.
func weirdNames() []string {
	return []string{
		"a", "A", "ä", "a\u0308", "Ä", "ß", "ss", "ı", "i", "İ", "I", "K", "\u212a", "ﬁ", "fi", "中文", "العربية", "😀", "👩‍👩‍👧", "\U0010ffff", "\ufeff", "\u200b", "\u2028", "\u00a0", "\ufffd",
		" ", "  ", " a", "a ", "a  b", "a b", "a\u00a0b", ".", "..", "...", "a.", "a..", "a...", ".a", "../a", "a/../b", "./a", "a/./b", "/", "//", "/a", "a/", "a//b", "~", "~/a",
		"%", "%%", "%s", "%2F", "a%2Fb", "%00", "_", "a_b", "axb", "*", "?", "[a]", "{a}", "$1", "${a}", "#", "a#b", "@", ":", "a:b", ";", ",", "=", "&", "|", "<a>", "!", "^", "(a)", "+",
		"'", "''", `"`, `""`, "`", `\`, `\\`, `\n`, `\u0041`, `a\`, `'; DROP TABLE event; --`, `a"b`, `a'b`,
		"-", "--", "-a", "0", "00", "1", "1.0", "1e3", "-1", "null", "NULL", "nil", "true", "NaN", "con", "CON", "nul", "aux.txt", "com1", "a.json", "index", "head", "rowid", "__proto__", "constructor",
		"*.a", ">", "a.>", "a.*", "$JS", "key with spaces/and/slashes", "a\u0301/b", "é/b",
		strings.Repeat("x", journal.MaxNameBytes), strings.Repeat("X", journal.MaxNameBytes), strings.Repeat("é", journal.MaxNameBytes/2), strings.Repeat("😀", journal.MaxNameBytes/4),
		strings.Repeat("/", journal.MaxNameBytes), strings.Repeat(".", journal.MaxNameBytes), strings.Repeat("a/", journal.MaxNameBytes/2), strings.Repeat("x", journal.MaxNameBytes-1),
	}
}

func keysRoundTrip(e *env) {
	names := weirdNames()
	var events []journal.Event
	for _, name := range names {
		ev := event(name, name)
		ev.Subject, ev.Refs = name, []string{name, "", name}
		c := commitOf(ev, set(name, fmt.Sprintf("%q", "v")))
		c.Actor, c.Cause = name, name
		r := e.mustCommit(c)
		events = append(events, eventsOf(c, r)...)
		e.equal("get "+name, e.get(space, name), recordsOf(c, r))
	}
	e.equal("journal", e.readAll(space, journal.ReadQuery{}), events)
	slices.Sort(names)
	e.equal("keys", keysOf(e.listAll(space, journal.ListQuery{Limit: 10})), names)
	for i, name := range names {
		e.equal("after "+name, keysOf(e.list(space, journal.ListQuery{After: name, Limit: 1})), names[i+1:min(i+2, len(names))])
	}
	e.reopen()
	e.equal("journal", e.readAll(space, journal.ReadQuery{}), events)
	e.equal("keys", keysOf(e.listAll(space, journal.ListQuery{})), names)
}

func keysDistinct(e *env) {
	names := weirdNames()
	for i, name := range names {
		e.must(journal.Check{Key: name}, journal.Check{Stream: name}, event(name, "s.made"), set(name, fmt.Sprint(i)))
	}
	for i, name := range names {
		e.equal("value of "+name, string(e.get(space, name)[0].Value), fmt.Sprint(i))
		got := e.readAll(space, journal.ReadQuery{Stream: name})
		e.ok(len(got) == 1 && got[0].Stream == name, "stream %q: got %d events, want its own", name, len(got))
	}
	for i, name := range names {
		if i%2 == 0 {
			e.must(journal.Write{Key: name})
		}
	}
	for i, name := range names {
		e.ok(e.get(space, name)[0].Exists() == (i%2 == 1), "after every other one was deleted: %q exists: %v", name, i%2 == 0)
	}
}

func keysSpaces(e *env) {
	var names []string
	for i, id := range weirdNames() {
		name := "user:" + strings.ReplaceAll(id, "/", "|")
		if len(name) > journal.MaxNameBytes || slices.Contains(names, name) {
			continue
		}
		names = append(names, name)
		e.must(name, journal.Check{Stream: "s"}, journal.Check{Key: "k"}, event("s", "s.made"), set("k", fmt.Sprint(i)))
	}
	slices.Sort(names)
	e.equal("spaces", e.spaces(journal.SpacesQuery{Limit: 9}), names)
	for _, name := range names {
		e.equal("head of "+name, e.head(name).Last.Seq, uint64(1))
		e.equal("journal of "+name, len(e.readAll(name, journal.ReadQuery{})), 1)
	}
	e.reopen()
	e.equal("spaces", e.spaces(journal.SpacesQuery{}), names)
	for i, name := range names {
		if i%2 == 0 {
			e.purge(name, journal.Purge{All: true})
		}
	}
	for i, name := range names {
		e.ok(e.head(name).Last.IsZero() == (i%2 == 0), "after every other one was purged: head of %q is %v", name, e.head(name).Last)
	}
}

func keysChecks(e *env) {
	for _, name := range weirdNames() {
		r := e.must(event(name, "s.made"), set(name, `1`))
		for _, k := range []journal.Check{{Key: name}, {Stream: name}} {
			e.equal("conflict", *e.conflict(k, event("x", "s.made")), journal.ConflictError{Space: space, Check: k, Actual: r.Last})
		}
		e.must(journal.Check{Key: name, At: r.Last}, journal.Check{Stream: name, At: r.Last}, event(name, "s.made"))
	}
}
