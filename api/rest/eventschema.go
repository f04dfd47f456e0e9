package rest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/thole-dev/thole"
)

// eventStream describes the answer to Accept: text/event-stream.
const eventStream = "As text/event-stream (Server-Sent Events): each frame has `id`, which resumes after it when sent as Last-Event-ID " +
	"(a broadcast has none), `event`, the type, and `data`, an event as JSON in one line. A line that begins with a colon is a heartbeat. A frame `error` holds a problem and is the last; " +
	"so is the frame `complete`, with the end of a run, on a stream that started it."

// events makes the schema of events: one alternative for each declared type, and one
// for the events of applications. A client finds the type of data by source and type.
func (g *generator) events(types []thole.EventType) {
	named := g.schemas.Named
	g.given(reflect.TypeFor[event]())
	base, _ := named["Event"].(object)
	var all []any
	add := func(name string, source, typ, data object, about string) {
		properties := make(object)
		for k, v := range base["properties"].(object) {
			properties[k] = v
		}
		properties["source"], properties["type"], properties["data"] = source, typ, data
		properties["space"] = object{"type": "string", "description": "where it happened, if several spaces share a connection"}
		if named[name] != nil {
			g.err = fmt.Errorf("two schemas have the name %s", name)
		}
		named[name] = object{"type": "object", "description": about, "required": base["required"], "properties": properties}
		all = append(all, object{"$ref": g.schemas.At + name})
	}
	for _, t := range types {
		data := object{"description": "any JSON"}
		if of := t.GoType(); of != nil {
			data = object{"oneOf": []any{g.given(of), object{"type": "null"}}, "description": "null after it was redacted"}
		}
		add(eventName(t.Type), object{"const": ofThole}, object{"const": t.Type}, data, t.About)
	}
	add("AppEvent", object{"const": ofApp}, object{"type": "string"}, object{"description": "any JSON"}, "An application's own event")
	named["Event"] = object{"oneOf": all, "description": "Narrow it by source, then by type"}
}

// eventName returns the name of the schema of a type of events: RunFinishedEvent.
func eventName(typ string) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(typ, func(r rune) bool { return r == '.' || r == '_' }) {
		b.WriteString(title(part))
	}
	return b.String() + "Event"
}
