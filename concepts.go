package thole

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole/journal"
)

// Concepts is the set of a Store's concepts: those it was given, those that they need,
// and the kernel's own.
type Concepts struct {
	all          []*Concept // the kernel first, and each after those it needs
	names        map[string]*Concept
	events       map[string]*EventType
	conversation map[string]bool      // event types
	streams      map[string][]pattern // by their first part
	records      map[string][]*record // by the first part of their keys
	lives        map[string]*RecordType
	ids          map[string]*RecordType
	prefixes     []string    // of ids
	threads      *RecordType // the one with MayKnow, or nil
	mayKnow      []string    // event types with ChangesMayKnow
	nouns        []string
	upcasts      map[string]bool // first parts of keys under which some records have an Upcast
}

// record is a declared RecordType.
type record struct {
	RecordType
	pattern pattern
	owner   *Concept
	above   *record // the nearest record above it in the key, or nil
}

// NewConcepts returns the set of the declared concepts, those that they need, and the
// kernel's own. It returns ErrInvalid if a declaration is malformed or two contradict
// each other.
func NewConcepts(declared ...*Concept) (*Concepts, error) {
	cs := &Concepts{
		names: make(map[string]*Concept), events: make(map[string]*EventType), conversation: make(map[string]bool),
		streams: make(map[string][]pattern), records: make(map[string][]*record),
		lives: make(map[string]*RecordType), ids: make(map[string]*RecordType), upcasts: make(map[string]bool),
	}
	for _, c := range append([]*Concept{kernel()}, declared...) {
		if err := cs.add(c, nil); err != nil {
			return nil, err
		}
	}
	cs.join()
	return cs, nil
}

// add adds the concepts that c needs, then c.
func (cs *Concepts) add(c *Concept, above []*Concept) error {
	if c == nil || c.Name == "" {
		return invalidf("a concept has no name")
	}
	if was := cs.names[c.Name]; was != nil {
		if was != c {
			return invalidf("two concepts are named %s", c.Name)
		}
		return nil
	}
	if slices.Contains(above, c) {
		return invalidf("concept %s needs itself", c.Name)
	}
	for _, needed := range c.Needs {
		if err := cs.add(needed, append(slices.Clip(above), c)); err != nil {
			return err
		}
	}
	cs.names[c.Name] = c
	cs.all = append(cs.all, c)
	if err := cs.declare(c); err != nil {
		return fmt.Errorf("concept %s: %w", c.Name, err)
	}
	return nil
}

func (cs *Concepts) declare(c *Concept) error {
	for i := range c.Events {
		if err := cs.event(&c.Events[i]); err != nil {
			return err
		}
		cs.conversation[c.Events[i].Type] = c.Conversation
	}
	records := slices.Clone(c.Records)
	for _, r := range records {
		if _, _, ok := LeaseOf(r.Key); ok {
			return invalidf("records %s have the name of a lease's", r.Key)
		}
	}
	for _, l := range c.Leases {
		if _, _, ok := LeaseOf(l.Base + "/owner"); !ok {
			return invalidf("leases %s have a base of one part, or below app/ or kv/", l.Base)
		}
		records = append(records, l.records()...)
	}
	for _, r := range records {
		if err := cs.record(c, r); err != nil {
			return err
		}
	}
	cs.nouns = append(cs.nouns, c.Nouns...)
	return nil
}

func (cs *Concepts) event(e *EventType) error {
	noun, verb, ok := strings.Cut(e.Type, ".")
	switch {
	case !ok || noun == "" || verb == "":
		return invalidf("event type %q is not noun.verb", e.Type)
	case journal.CheckType(e.Type) != nil:
		return journal.CheckType(e.Type)
	case cs.events[e.Type] != nil:
		return invalidf("event type %s is declared twice", e.Type)
	case e.About == "":
		return invalidf("event type %s has no line that says when it is told", e.Type)
	case len(e.Streams) == 0:
		return invalidf("event type %s goes to no stream", e.Type)
	}
	for _, s := range e.Streams {
		p, err := parsePattern(s)
		if err != nil {
			return err
		}
		known := false
		for _, q := range cs.streams[p.noun()] {
			if known = known || q.text == s; q.thread != p.thread && p.overlaps(q) {
				return invalidf("streams %s and %s overlap and belong to different threads", s, q.text)
			}
		}
		if !known {
			cs.streams[p.noun()] = append(cs.streams[p.noun()], p)
		}
	}
	cs.events[e.Type] = e
	if e.ChangesMayKnow {
		cs.mayKnow = append(cs.mayKnow, e.Type)
	}
	if noun != "app" { // app belongs to applications
		cs.nouns = append(cs.nouns, noun)
	}
	return nil
}

func (cs *Concepts) record(c *Concept, r RecordType) error {
	p, err := parsePattern(r.Key)
	if err != nil {
		return err
	}
	for _, other := range cs.records[p.noun()] {
		if p.overlaps(other.pattern) {
			return invalidf("records %s overlap with %s of concept %s", p.text, other.pattern.text, other.owner.Name)
		}
	}
	if r.LivesOn != nil {
		if len(p.parts) != 2 || p.parts[1] != any1 {
			return invalidf("records %s cannot live on: their keys are not noun/{name}", p.text)
		}
		cs.lives[p.noun()] = &r
	}
	if r.ID != "" {
		if last := len(p.parts) - 1; cs.ids[r.ID] != nil || slices.Index(p.parts, any1) != last || p.rest {
			return invalidf("records %s cannot have the ids %s_…: others have, or the last part of their keys is not the only one in braces", p.text, r.ID)
		}
		cs.ids[r.ID] = &r
		cs.prefixes = append(cs.prefixes, r.ID)
	}
	if r.MayKnow != nil {
		if cs.threads != nil || p.text != "thread/{thread}" {
			return invalidf("records %s cannot have MayKnow: others have, or they are not thread/{thread}", p.text)
		}
		cs.threads = &r
	}
	if r.Expire == nil {
		r.Expire = DeleteExpired
	}
	if r.Upcast != nil {
		cs.upcasts[p.noun()] = true
	}
	cs.records[p.noun()] = append(cs.records[p.noun()], &record{RecordType: r, pattern: p, owner: c})
	return nil
}

// join sets above for each record, and sorts nouns and prefixes.
func (cs *Concepts) join() {
	for _, records := range cs.records {
		for _, r := range records {
			for _, other := range records {
				if other.pattern.above(r.pattern) && (r.above == nil || r.above.pattern.above(other.pattern)) {
					r.above = other
				}
			}
		}
	}
	slices.Sort(cs.nouns)
	cs.nouns = slices.Compact(cs.nouns)
	slices.SortFunc(cs.prefixes, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
}

// All returns the concepts, each after those it needs. The first is the kernel's own.
func (cs *Concepts) All() []*Concept { return slices.Clone(cs.all) }

// EventTypes returns all event types, sorted by name.
func (cs *Concepts) EventTypes() []EventType {
	var out []EventType
	for _, e := range cs.events {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b EventType) int { return cmp.Compare(a.Type, b.Type) })
	return out
}

// EventType returns the declaration of a type of event, or nil.
func (cs *Concepts) EventType(typ string) *EventType { return cs.events[typ] }

// IsConversation reports whether events of that type are what a chat shows: what was said
// and done in a thread, as opposed to state that is kept in sync.
func (cs *Concepts) IsConversation(typ string) bool { return cs.conversation[typ] }

// Nouns returns the nouns with which the concepts' event types begin, sorted.
func (cs *Concepts) Nouns() []string { return slices.Clone(cs.nouns) }

// Record returns the declaration of the record under key and its concept, or nil if it
// is not declared.
func (cs *Concepts) Record(key string) (*RecordType, *Concept) {
	r := cs.recordOf(key)
	if r == nil {
		return nil, nil
	}
	return &r.RecordType, r.owner
}

func (cs *Concepts) recordOf(key string) *record {
	noun, _, _ := strings.Cut(key, "/")
	for _, r := range cs.records[noun] {
		if r.pattern.matches(key) {
			return r
		}
	}
	return nil
}

// Above returns the key of the nearest declared record above key, such as that of its
// thread, or "".
func (cs *Concepts) Above(key string) string {
	r := cs.recordOf(key)
	if r == nil || r.above == nil {
		return ""
	}
	return firstParts(key, len(r.above.pattern.parts))
}

// Owner returns the key noun/{name} of the record that the record under key belongs to,
// such as that of its thread, however far below it is; "" if there is none.
func (cs *Concepts) Owner(key string) string {
	owner := ""
	for above := cs.Above(key); above != ""; above = cs.Above(above) {
		if strings.Contains(above, "/") {
			owner = above
		}
	}
	return owner
}

// undeclaredPrefix returns the shortest prefix of key, in whole parts, at or below which no
// record is declared, or "".
func (cs *Concepts) undeclaredPrefix(key string) string {
	noun, _, _ := strings.Cut(key, "/")
	for n := range strings.Count(key, "/") + 1 {
		above := firstParts(key, n+1)
		if !slices.ContainsFunc(cs.records[noun], func(r *record) bool { return r.pattern.reaches(above) }) {
			return above
		}
	}
	return ""
}

// has reports whether the Store has the concept.
func (cs *Concepts) has(name string) bool { return cs.names[name] != nil }
