package thole

import (
	"slices"
	"strings"
)

// pattern is a pattern of keys or streams: see [Concept].
type pattern struct {
	text   string
	parts  []string // any1 for {name}
	thread int      // index of {thread}, or -1
	rest   bool     // it ends with **: one or more parts follow
}

// any1 stands for any one part.
const any1 = "{}"

func parsePattern(text string) (pattern, error) {
	p := pattern{text: text, parts: strings.Split(text, "/"), thread: -1}
	if p.rest = len(p.parts) > 1 && p.parts[len(p.parts)-1] == "**"; p.rest {
		p.parts = p.parts[:len(p.parts)-1]
	}
	for i, part := range p.parts {
		switch {
		case part == "{thread}" && p.thread < 0:
			p.thread = i
			p.parts[i] = any1
		case i > 0 && len(part) > 2 && part[0] == '{' && part[len(part)-1] == '}':
			p.parts[i] = any1
		case part == "" || strings.ContainsAny(part, "{}*"):
			return p, invalidf("pattern %q: part %q is neither fixed nor {name}, and ** may only end it", text, part)
		}
	}
	if p.thread == 0 {
		return p, invalidf("pattern %q begins with {thread}", text)
	}
	return p, nil
}

// noun returns the first part, which is never {name}.
func (p *pattern) noun() string { return p.parts[0] }

// matches reports whether name matches the pattern.
func (p *pattern) matches(name string) bool {
	for i, part := range p.parts {
		head, below, more := strings.Cut(name, "/")
		if part != any1 && part != head || head == "" {
			return false
		}
		if last := i == len(p.parts)-1; last {
			return more == p.rest
		}
		if !more {
			return false
		}
		name = below
	}
	return false
}

// threadIn returns the id of the thread in a name that matches, or "".
func (p *pattern) threadIn(name string) string {
	if p.thread < 0 {
		return ""
	}
	for range p.thread {
		_, name, _ = strings.Cut(name, "/")
	}
	id, _, _ := strings.Cut(name, "/")
	return id
}

// of returns the names that match and have the id of that thread, in the form of
// [WatchOptions]. ok is false if none have, or if {name} stands before {thread}, so that
// the form cannot say it.
func (p *pattern) of(thread string) (names string, ok bool) {
	if p.thread < 0 || slices.Index(p.parts, any1) != p.thread {
		return "", false
	}
	head := strings.Join(p.parts[:p.thread], "/") + "/" + thread
	for _, part := range p.parts[p.thread+1:] {
		if part == any1 {
			return head + "/*", true
		}
		head += "/" + part
	}
	if p.rest {
		head += "/*"
	}
	return head, true
}

// reaches reports whether some name that matches the pattern is the given name or below
// it.
func (p *pattern) reaches(name string) bool {
	parts := strings.Split(name, "/")
	for i, part := range parts[:min(len(parts), len(p.parts))] {
		if p.parts[i] != any1 && p.parts[i] != part {
			return false
		}
	}
	return len(parts) <= len(p.parts) || p.rest
}

// overlaps reports whether some name matches both patterns.
func (p *pattern) overlaps(q pattern) bool {
	n := min(len(p.parts), len(q.parts))
	for i := range n {
		if a, b := p.parts[i], q.parts[i]; a != b && a != any1 && b != any1 {
			return false
		}
	}
	switch len(p.parts) - len(q.parts) {
	case 0:
		return p.rest == q.rest
	default:
		return len(p.parts) > len(q.parts) && q.rest || len(p.parts) < len(q.parts) && p.rest
	}
}

// above reports whether every name that matches q is below one that matches p. What
// belongs to a thread, as run/{thread}/x, is not below what does not, as run/{run}.
func (p *pattern) above(q pattern) bool {
	n := len(p.parts)
	return !p.rest && n < len(q.parts) && slices.Equal(p.parts, q.parts[:n]) && (p.thread == q.thread || p.thread < 0 && q.thread >= n)
}

// firstParts returns the first n parts of a name.
func firstParts(name string, n int) string {
	return strings.Join(strings.SplitN(name, "/", n+1)[:n], "/")
}
