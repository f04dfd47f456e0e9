package rest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/shape"
)

// EventTables returns Markdown: the events of each concept, the kernel's last.
func EventTables(cs *thole.Concepts) string {
	var b strings.Builder
	concepts, set := cs.All(), newShapes()
	for _, c := range append(concepts[1:], concepts[0]) {
		if len(c.Events) == 0 {
			continue
		}
		first := c.Events[0]
		same := func(is func(thole.EventType) bool) bool {
			return len(c.Events) > 1 && !slices.ContainsFunc(c.Events, func(e thole.EventType) bool { return !is(e) })
		}
		oneStream := same(func(e thole.EventType) bool { return slices.Equal(e.Streams, first.Streams) })
		oneShape := same(func(e thole.EventType) bool { return e.GoType() == first.GoType() })
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n", title(c.Name), title(c.About))
		if oneStream {
			fmt.Fprintf(&b, "Stream: %s.\n", streamsOf(first))
		}
		if oneShape {
			fmt.Fprintf(&b, "Data: %s.\n", dataOf(set, first.GoType()))
		}
		if oneStream || oneShape {
			b.WriteByte('\n')
		}
		row := func(typ, stream, data, when string) {
			cells := []string{typ}
			if !oneStream {
				cells = append(cells, stream)
			}
			if !oneShape {
				cells = append(cells, data)
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(append(cells, when), " | "))
		}
		row("type", "stream", "data", "when")
		row("---", "---", "---", "---")
		for _, e := range c.Events {
			row("`"+e.Type+"`"+[...]string{thole.NotLive: "", thole.AlsoLive: " (also broadcast)", thole.OnlyLive: " (broadcast only)"}[e.Live],
				streamsOf(e), dataOf(set, e.GoType()), e.About)
		}
	}
	fmt.Fprintf(&b, "\nEvents of applications begin with none of the nouns `%s`.\n\n", strings.Join(cs.Nouns(), " "))
	return b.String()
}

func streamsOf(e thole.EventType) string { return "`" + strings.Join(e.Streams, "` or `") + "`" }

// dataOf returns the names of the data's members, and of theirs.
func dataOf(set *shape.Set, t reflect.Type) string {
	if t == nil {
		return "any JSON"
	}
	return "`" + members(set.Of(t), 2) + "`"
}

func members(s *shape.Shape, levels int) string {
	var all []string
	for _, f := range s.Fields {
		text := f.Name
		if !f.Always {
			text += "?"
		}
		switch {
		case f.Shape.Kind == shape.Array:
			text += "[]"
		case f.Shape.Kind == shape.Object && levels > 1 && !f.Shape.IsMap():
			text += "{" + members(f.Shape, levels-1) + "}"
		case f.Shape.Kind == shape.Object:
			text += "{}"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}
