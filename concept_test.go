package thole_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

func TestConceptsThatContradictEachOtherAreRefused(t *testing.T) {
	event := func(typ string, streams ...string) *thole.Concept {
		return &thole.Concept{Name: "a", Events: []thole.EventType{{Type: typ, About: "x", Streams: streams}}}
	}
	record := func(keys ...string) *thole.Concept {
		c := &thole.Concept{Name: "a"}
		for _, key := range keys {
			c.Records = append(c.Records, thole.RecordType{Key: key})
		}
		return c
	}
	lease := func(base string) *thole.Concept {
		return &thole.Concept{Name: "a", Leases: []thole.LeaseType{{Base: base}}}
	}
	named := func(name string, c *thole.Concept) *thole.Concept { c.Name = name; return c }
	itself := &thole.Concept{Name: "a"}
	itself.Needs = []*thole.Concept{itself}
	for _, test := range []struct {
		want  string
		given []*thole.Concept
	}{
		{"no name", []*thole.Concept{{}}},
		{"two concepts are named a", []*thole.Concept{record("x/{x}"), record("y/{y}")}},
		{"needs itself", []*thole.Concept{itself}},
		{"event type x.made is declared twice", []*thole.Concept{event("x.made", "x"), named("b", event("x.made", "y"))}},
		{"not noun.verb", []*thole.Concept{event("made", "x")}},
		{"goes to no stream", []*thole.Concept{event("x.made")}},
		{"records x/{y} overlap with x/{x} of concept a", []*thole.Concept{record("x/{x}"), named("b", record("x/{y}"))}},
		{"overlap", []*thole.Concept{record("x/{x}/y", "x/y/{y}")}},
		{"overlap", []*thole.Concept{record("x/**", "x/y/z")}},
		{"overlap", []*thole.Concept{record("x/y/z", "x/**")}},
		{"overlap with app/**", []*thole.Concept{record("app/x")}},
		{"overlap with outbox/{message} of concept kernel", []*thole.Concept{record("outbox/x")}},
		{"neither fixed nor {name}", []*thole.Concept{record("x/*")}},
		{"neither fixed nor {name}", []*thole.Concept{record("{x}/x")}},
		{"neither fixed nor {name}", []*thole.Concept{record("x//y")}},
		{"cannot live on", []*thole.Concept{{Name: "a", Records: []thole.RecordType{{Key: "x/{x}/y", LivesOn: func(thole.Record) time.Duration { return 1 }}}}}},
		{"cannot have the ids", []*thole.Concept{{Name: "a", Records: []thole.RecordType{{Key: "x/{x}/y", ID: "x"}}}}},
		{"cannot have the ids", []*thole.Concept{{Name: "a", Records: []thole.RecordType{{Key: "x/{x}/{y}", ID: "x"}}}}},
		{"cannot have MayKnow", []*thole.Concept{{Name: "a", Records: []thole.RecordType{{Key: "x/{thread}", MayKnow: everyone}}}}},
		{"have the name of a lease's", []*thole.Concept{record("x/{x}/owner")}},
		{"have the name of a lease's", []*thole.Concept{record("x/y/{z}/beat")}},
		{"have a base of one part", []*thole.Concept{lease("x")}},
		{"or below app/ or kv/", []*thole.Concept{lease("kv/{x}")}},
		{"belong to different threads", []*thole.Concept{event("x.made", "x/{x}"), named("b", event("y.made", "x/{thread}"))}},
	} {
		_, err := thole.Open(t.Context(), memstore.New(), &thole.Options{Sweep: -1, Concepts: test.given})
		if !errors.Is(err, thole.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want ErrInvalid with %q", err, test.want)
		}
	}
	fine := []*thole.Concept{record("x/{x}", "x/{x}/y", "x/{x}/{z}/y", "y/**", "y", "thread/{thread}/x")}
	if _, err := thole.NewConcepts(fine...); err != nil {
		t.Errorf("concepts that do not contradict each other: %v", err)
	}
}

func TestAConceptBringsWhatItNeeds(t *testing.T) {
	below := &thole.Concept{Name: "below", Records: []thole.RecordType{{Key: "below/{below}"}}}
	middle := &thole.Concept{Name: "middle", Needs: []*thole.Concept{below}}
	top := &thole.Concept{Name: "top", Needs: []*thole.Concept{below, middle}, Records: []thole.RecordType{{Key: "below/{below}/top"}}}
	cs, err := thole.NewConcepts(top, middle)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range cs.All() {
		names = append(names, c.Name)
	}
	if want := []string{"kernel", "below", "middle", "top"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	for key, want := range map[string]string{"below/1": "below", "below/1/top": "top", "outbox/x": "kernel", "app/x/y": "kernel", "below": "", "below/1/x": "", "below//top": "", "x/1": ""} {
		_, c := cs.Record(key)
		if c == nil && want != "" || c != nil && c.Name != want {
			t.Errorf("%s is of %v, want %q", key, c, want)
		}
	}
	if got := cs.Above("below/1/top"); got != "below/1" {
		t.Errorf("above below/1/top is %q", got)
	}
}

func TestARecordBelongsToTheOneThatItsKeyIsBelow(t *testing.T) {
	keys := []string{"x", "x/{x}", "x/{x}/deep/{y}", "x/{x}/deep/{y}/z", "x/{thread}/gone", "y/{thread}", "y/{thread}/in/{y}"}
	c := &thole.Concept{Name: "x"}
	for _, key := range keys {
		c.Records = append(c.Records, thole.RecordType{Key: key})
	}
	cs, err := thole.NewConcepts(c)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"x": "", "x/1": "", "x/1/deep/2": "x/1", "x/1/deep/2/z": "x/1", "x/1/gone": "", "y/1": "", "y/1/in/2": "y/1", "upload/1": "", "z/1/2": "",
	} {
		if got := cs.Owner(key); got != want {
			t.Errorf("%s belongs to %q, want %q", key, got, want)
		}
	}
}

// ending returns a concept whose records noun/… end with end.
func ending(noun string, end thole.Expirer) *thole.Concept {
	return &thole.Concept{Name: noun, Records: []thole.RecordType{{Key: noun + "/{x}", Expire: end}, {Key: noun + "/{x}/**", Expire: end}}}
}

// lasting returns the concept of things, which live for ttl after the last write below
// them.
func lasting(ttl time.Duration) *thole.Concept {
	c := ending("thing", thole.TellExpired)
	c.Records[0].LivesOn = func(thole.Record) time.Duration { return ttl }
	return c
}

// with returns opts with these concepts and, unless they include it, the concept of
// things.
func with(opts *thole.Options, given ...*thole.Concept) *thole.Options {
	var o thole.Options
	if opts != nil {
		o = *opts
	}
	given = append(given, o.Concepts...)
	if !slices.ContainsFunc(given, func(c *thole.Concept) bool { return c.Name == "thing" }) {
		given = append(given, ending("thing", thole.TellExpired))
	}
	o.Concepts = given
	return &o
}
