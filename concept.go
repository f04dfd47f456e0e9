package thole

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/thole-dev/thole/journal"
)

// Concept declares what a package such as state/thread keeps in a space and what
// it tells there. It is a value that never changes, given to [Open] in
// [Options.Concepts]; whatever else must know of a concept is made from it: which
// event types applications may not use, how what expires ends, who may hear of
// what, what `thole doctor` checks, docs/events.md, and the schemas of events in
// the OpenAPI document.
//
// Patterns name streams and keys: parts between slashes, of which {name} stands for
// any one, and ** at the end for one or more. A part {thread} is the id of the thread
// to which whatever has that name belongs; the names of the others are for readers.
type Concept struct {
	Name  string // that of its package, such as "todo"
	About string // what it is, in a line

	Needs   []*Concept   // those it builds on; a Store that is given this one is given them too
	Events  []EventType  // each type has one owner
	Records []RecordType // their patterns do not overlap, also not with those of other concepts
	Leases  []LeaseType
	Nouns   []string // more nouns that event types of applications may not begin with

	// Check reports what the concept keeps in sp that does not hold together. That
	// records fit their types, and that nothing belongs to a record that is gone, is
	// checked for every concept. Nil: there is no more to check. An error ends the
	// examination of the space.
	Check func(ctx context.Context, sp *Space, r *Report) error
}

// EventType declares a type of events.
type EventType struct {
	Type    string   // noun.verb, such as "todo.changed"
	About   string   // when it is told, in a line
	Data    any      // the zero value of its data's Go type; nil: it has none, or any JSON
	Streams []string // patterns of the streams that it goes to
	Live    Live

	// Upcast lifts data of an earlier schema: see [Schema]. Nil: its shape is as it was.
	Upcast Upcast[Event]

	// OwnSchema says that the schema of its events is not [Schema] but that of what
	// they hold, such as a document's shape.
	OwnSchema bool

	// Of returns to what an event belongs, by its data, for streams without
	// {thread}: see [RecordType]. Nil: to none. Data that it cannot read is an error,
	// and the event is hidden.
	Of func(data json.RawMessage) ([]string, error)

	// Names says that the data names threads, or records with an ID, which may belong
	// to threads of which a reader may not know: their digits are shown to it as zeros.
	Names bool
}

// Live says whether a type is broadcast.
type Live int

// Whether events of a type are kept in the journal, broadcast, or both.
const (
	NotLive  Live = iota // in the journal
	AlsoLive             // in the journal, and broadcast before
	OnlyLive             // broadcast; never in the journal
)

// RecordType declares the records whose keys match a pattern.
type RecordType struct {
	Key   string // the pattern
	About string
	Value any // the zero value of its Go type; nil: any JSON

	// Expire ends records whose time is up. Nil: [DeleteExpired].
	Expire Expirer

	// LivesOn declares that a record of a pattern noun/{name} that expires lives on
	// while something is written that belongs to it: below its key, in the stream of
	// that name, and below app/ and its key. It returns how long it lives after that.
	// Whatever is committed through a Space moves the record's end if need be, in the
	// same commit, at most once in a tenth of that time: so it may end up to a tenth
	// later. The record's value stays as it is, its version does not.
	LivesOn func(rec Record) time.Duration

	// Of returns to what a record without {thread} belongs, by its value: ids of
	// threads, and keys of records that belong to threads in their turn. Whoever may not
	// know of one of them, or whose thread is gone without a trace, may not know of the
	// record. Nil: it belongs to what the record above it in the key belongs to; if
	// there is none, to no thread, and every reader of the space may know of it.
	Of func(value json.RawMessage) ([]string, error)

	// ID is the prefix, such as "run", of the ids that are the last part of the key.
	// Texts that name one are masked for whoever may not know of the record.
	ID string

	// Upcast lifts values of an earlier schema: see [Schema]. Who writes them says the
	// present one in [WriteOptions]. Nil: their shape is as it was.
	Upcast Upcast[Record]

	Private bool // it is the engine's own, and shown to admins alone
}

// LeaseType declares leases: see [Tx.Acquire]. Their two records are private.
type LeaseType struct {
	Base   string  // pattern
	About  string  //
	Expire Expirer // ends the record base/beat when its time is up; nil: [DeleteExpired]
}

// records are the two records of a lease.
func (l LeaseType) records() []RecordType {
	return []RecordType{
		{Key: l.Base + "/owner", About: l.About, Value: leaseOwner{}, Private: true},
		{Key: l.Base + "/beat", About: "its holder's sign of life", Value: leaseBeat{}, Expire: l.Expire, Private: true},
	}
}

// typeOf is the Go type of a declared value; nil: any JSON.
func typeOf(v any) reflect.Type {
	if v == nil {
		return nil
	}
	t := reflect.TypeOf(v)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// Decode reports whether value fits the record's type. ErrCorrupt: it does not.
func (r *RecordType) Decode(key string, value json.RawMessage) error {
	t := typeOf(r.Value)
	if t == nil {
		return nil
	}
	return journal.Decode("record "+key, value, reflect.New(t).Interface())
}

// GoType returns the Go type of the data of events of the type; nil: any JSON.
func (e *EventType) GoType() reflect.Type { return typeOf(e.Data) }

// Report collects what a [Concept]'s Check finds.
type Report struct {
	Problem func(format string, args ...any) // something is wrong
	Note    func(format string, args ...any) // nothing is wrong, but people may want to know
}
