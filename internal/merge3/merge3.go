// Package merge3 merges two edits of one text, line by line, against the text
// they both started from (diff3: Khanna, Kunal, Pierce, "A Formal
// Investigation of Diff3", 2007).
//
//	base    a b c d e          the text both sides read
//	ours    a B c d e          one side changed b
//	theirs  a b c d e f        the other added f
//	        -----------
//	text    a B c d e f
//
// Changes that overlap or touch, with no unchanged line between them, are a
// conflict unless both sides made the same change, as in git.
package merge3

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// ErrBinary is a content that is not UTF-8 text, so has no lines to merge.
var ErrBinary = errors.New("merge3: not UTF-8 text")

// Result is a merged text and what could not be merged into it.
type Result struct {
	// Text has every change of theirs, and every change of ours that is in no
	// conflict. Line ends and a missing final newline are as their side wrote
	// them.
	Text      string
	Conflicts []Conflict // in the order of the text; empty: all merged
}

// Conflict is a place that both sides changed in different ways. Text has
// Theirs there, so Ours is exactly what was not applied.
type Conflict struct {
	Base   Part `json:"base"`
	Ours   Part `json:"ours"`
	Theirs Part `json:"theirs"`
}

// Part is a run of whole lines of one of the three texts.
type Part struct {
	Line  int    `json:"line"`  // of its first line, from 1; with no lines, where they would be
	Lines int    `json:"lines"` // how many
	Text  string `json:"text"`
}

// Merge merges ours and theirs, two edits of base. It returns ErrBinary if one
// of the three is not UTF-8 text. It is safe for concurrent use.
func Merge(base, ours, theirs string) (Result, error) {
	for name, s := range map[string]string{"base": base, "ours": ours, "theirs": theirs} {
		if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
			return Result{}, fmt.Errorf("%w: %s", ErrBinary, name)
		}
	}
	b := split(base)
	m := merger{base: b, a: hunks(b, ours, base), b: hunks(b, theirs, base)}
	m.run()
	return Result{Text: m.out.String(), Conflicts: m.conflicts}, nil
}

// Unified returns a unified diff from old to new for people to read, empty
// if the two are equal.
func Unified(oldName, newName, old, new string) string {
	return udiff.Unified(oldName, newName, old, new)
}

// hunk replaces the base lines [start, end) by lines.
type hunk struct {
	start, end int
	lines      []string
}

// merger walks the hunks of both sides in step.
type merger struct {
	base      []string
	a, b      []hunk // not yet merged; a is ours, b is theirs
	at        int    // base lines before it are done
	shiftA    int    // line of ours minus line of base, here
	shiftB    int
	out       strings.Builder
	conflicts []Conflict
}

func (m *merger) run() {
	for len(m.a) > 0 || len(m.b) > 0 {
		ours, theirs, start, end := m.group()
		m.copyBase(start)
		a := apply(m.base, ours, start, end)
		b := apply(m.base, theirs, start, end)
		switch {
		case len(theirs) == 0:
			m.write(a)
		case len(ours) == 0 || equal(a, b):
			m.write(b)
		default:
			m.write(b)
			m.conflicts = append(m.conflicts, Conflict{
				Base:   part(start, m.base[start:end]),
				Ours:   part(start+m.shiftA, a),
				Theirs: part(start+m.shiftB, b),
			})
		}
		m.at = end
		m.shiftA += len(a) - (end - start)
		m.shiftB += len(b) - (end - start)
	}
	m.copyBase(len(m.base))
}

// group takes the next hunk of either side and all that overlap or touch it,
// and returns them with the base lines that they span together.
func (m *merger) group() (ours, theirs []hunk, start, end int) {
	if len(m.b) == 0 || len(m.a) > 0 && m.a[0].start <= m.b[0].start {
		start, end = m.a[0].start, m.a[0].end
	} else {
		start, end = m.b[0].start, m.b[0].end
	}
	for {
		switch {
		case len(m.a) > 0 && m.a[0].start <= end:
			end = max(end, m.a[0].end)
			ours, m.a = append(ours, m.a[0]), m.a[1:]
		case len(m.b) > 0 && m.b[0].start <= end:
			end = max(end, m.b[0].end)
			theirs, m.b = append(theirs, m.b[0]), m.b[1:]
		default:
			return ours, theirs, start, end
		}
	}
}

func (m *merger) copyBase(end int) { m.write(m.base[m.at:end]); m.at = end }

func (m *merger) write(lines []string) {
	for _, l := range lines {
		m.out.WriteString(l)
	}
}

// apply returns what one side made of the base lines [start, end).
func apply(base []string, hs []hunk, start, end int) []string {
	var out []string
	for _, h := range hs {
		out = append(out, base[start:h.start]...)
		out = append(out, h.lines...)
		start = h.end
	}
	return append(out, base[start:end]...)
}

// hunks returns the changes from base to text as runs of whole lines, in order.
func hunks(lines []string, text, base string) []hunk {
	lineAt := make(map[int]int, len(lines)+1) // byte offset → line
	offset := 0
	for i, l := range lines {
		lineAt[offset] = i
		offset += len(l)
	}
	lineAt[offset] = len(lines)

	var hs []hunk
	for _, e := range udiff.Lines(base, text) {
		hs = append(hs, hunk{lineAt[e.Start], lineAt[e.End], split(e.New)})
	}
	return hs
}

// split cuts s after each newline; the last line may have none.
func split(s string) []string {
	if s == "" {
		return nil
	}
	lines := strings.SplitAfter(s, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func part(start int, lines []string) Part {
	return Part{Line: start + 1, Lines: len(lines), Text: strings.Join(lines, "")}
}

func equal(a, b []string) bool { return strings.Join(a, "") == strings.Join(b, "") }
