package rest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/thole-dev/thole"
)

// An event is sent as a frame of Server-Sent Events (WHATWG HTML, section 9.2):
//
//	id: 00019f3a…-0000000000000042      not for a broadcast
//	event: message.added
//	data: {"position":…,"source":…,"stream":…,"type":…,"time":…,"actor":…,"cause":…,"data":…}
//
// followed by an empty line. When one connection watches several spaces, the id is
// a compound of their positions and data begins with "space".

// event is the wire form of an event, in streams and in pages. Its schema is made
// from the declared types of events: see [generator.events].
type event struct {
	Position thole.Position  `json:"position,omitzero"` // a broadcast has none
	Source   string          `json:"source"`
	Stream   string          `json:"stream"`
	Type     string          `json:"type"`
	Time     time.Time       `json:"time"`
	Actor    string          `json:"actor"`
	Cause    string          `json:"cause"`
	Subject  string          `json:"subject,omitempty"`
	Refs     []string        `json:"refs,omitempty"`
	Schema   int             `json:"schema,omitempty"`
	Data     json.RawMessage `json:"data"`
}

// The sources of events.
const (
	ofThole = "thole" // written by a concept, with data of its declared type
	ofApp   = "app"   // written by an application
)

// source returns the source of an event. Every event in a stream below app/ is an
// application's, whatever its type.
func (a *API) source(e *thole.Event) string {
	if a.declared[e.Type] && (e.Type == "app.expired" || !strings.HasPrefix(e.Stream, "app/")) {
		return ofThole
	}
	return ofApp
}

func (a *API) event(e *thole.Event) event {
	data := e.Data
	if data == nil { // redacted
		data = json.RawMessage("null")
	}
	return event{e.Position, a.source(e), e.Stream, e.Type, e.Time, e.Actor, e.Cause, e.Subject, e.Refs, e.Schema, data}
}

// Never changed.
var (
	newline = []byte("\n")
	zero    = json.RawMessage("0")
)

// frame encodes a delivery, once for all watchers of its space.
func (a *API) frame(d *thole.Delivery) []byte { return a.frameEvent(&d.Event, d.IsBroadcast()) }

func (a *API) frameEvent(e *thole.Event, isBroadcast bool) []byte {
	var b bytes.Buffer
	b.Grow(len(e.Data) + 320)
	if !isBroadcast {
		b.WriteString("id: ")
		b.WriteString(e.Position.String())
		b.WriteByte('\n')
	}
	b.WriteString("event: ")
	b.WriteString(oneLine(e.Type))
	b.WriteString("\ndata: ")
	wire := a.event(e)
	data := wire.Data
	wire.Data = zero // the encoder would scan the data, which was checked when it was committed
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(wire); err != nil {
		return nil // cannot happen: a name is a string
	}
	b.Truncate(b.Len() - len("0}\n"))
	if bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0 { // stored by an earlier version, which kept white space
		json.Compact(&b, data)
	} else {
		b.Write(data)
	}
	b.WriteString("}\n\n")
	return b.Bytes()
}

// oneLine returns a name without line breaks, for a line of a frame. New names hold no
// control characters, but an old store may have some that do.
func oneLine(name string) string {
	return strings.Map(func(c rune) rune {
		if c < 0x20 || c == 0x7f {
			return ' '
		}
		return c
	}, name)
}

// frameOf makes the frame for a connection that watches several spaces from the
// shared frame.
func frameOf(space string, id string, shared []byte) []byte {
	if bytes.HasPrefix(shared, []byte("id: ")) {
		_, shared, _ = bytes.Cut(shared, newline)
	} else {
		id = ""
	}
	const mark = "\ndata: {"
	at := bytes.Index(shared, []byte(mark)) + len(mark)
	name, _ := json.Marshal(space) // a string: cannot fail
	var b bytes.Buffer
	b.Grow(len(shared) + len(id) + len(space) + 24)
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.Write(shared[:at])
	b.WriteString(`"space":`)
	b.Write(name)
	b.WriteByte(',')
	b.Write(shared[at:])
	return b.Bytes()
}

// eventFrame returns a frame that does not come from a journal.
func eventFrame(typ string, data any) []byte {
	body, err := marshal(data)
	if err != nil {
		body = []byte("null\n")
	}
	return slices.Concat([]byte("event: "+typ+"\ndata: "), body, newline)
}

// A compound cursor holds a position in each of several spaces. In version 1 it is
// "1", then base64url of "<space>=<position>" lines.

func formatCompound(spaces []string, at []thole.Position) string {
	var b strings.Builder
	for i, name := range spaces {
		b.WriteString(name + "=" + at[i].String() + "\n")
	}
	return "1" + base64.RawURLEncoding.EncodeToString([]byte(b.String()))
}

// parseCompound returns the position in each space. A space that is not in the cursor
// was not watched then: its position is zero, and its watch starts now.
func parseCompound(field, cursor string) (map[string]thole.Position, error) {
	bad := invalid(field, "%.40q… is not a cursor over several spaces", cursor)
	encoded, ok := strings.CutPrefix(cursor, "1")
	if !ok {
		return nil, bad
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil, bad
	}
	at := make(map[string]thole.Position)
	for line := range strings.Lines(string(text)) {
		cut := strings.LastIndexByte(line, '=')
		if cut < 0 {
			return nil, bad
		}
		p, err := thole.ParsePosition(strings.TrimSuffix(line[cut+1:], "\n"))
		if err != nil {
			return nil, bad
		}
		at[line[:cut]] = p
	}
	return at, nil
}
