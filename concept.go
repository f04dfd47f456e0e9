package thole

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/thole-dev/thole/journal"
)

// Concept declares the records that a package such as state/thread keeps in a space and
// the events that it emits there. It never changes and is passed to [Open] in
// [Options.Concepts]. Everything else that depends on a concept is derived from it:
// which event types applications may not use, what happens to expired records, who may
// read what, what `thole doctor` checks, docs/events.md, and the schemas of events in
// the OpenAPI document.
//
// A pattern describes names of streams or keys: parts between slashes, where {name}
// matches any one part and ** at the end matches one or more. A part {thread} is the id
// of the thread that the stream or record belongs to; other names in braces are
// documentation.
type Concept struct {
	Name  string // the package's name, such as "todo"
	About string // what it is, in one line

	Needs   []*Concept   // the concepts it builds on; a Store that has this one has them too
	Events  []EventType  // each type belongs to one concept
	Records []RecordType // no two patterns overlap, across all concepts
	Leases  []LeaseType
	Nouns   []string // additional nouns with which an application's event types may not begin

	Conversation bool // its events are what a chat shows: see [Concepts.IsConversation]

	// Check reports inconsistencies in what the concept keeps in sp. For every concept,
	// doctor already checks that records fit their types and that no record is left below
	// a noun/{name}, such as a thread, that is missing. What a record belongs to by Of
	// may be missing: see [RecordType]. Nil: nothing else is checked. An error ends the
	// examination of the space.
	Check func(ctx context.Context, sp *Space, r *Report) error
}

// EventType declares a type of event.
type EventType struct {
	Type    string   // noun.verb, such as "todo.changed"
	About   string   // when it is emitted, in one line
	Data    any      // the zero value of its data's Go type; nil: no data, or any JSON
	Streams []string // patterns of the streams it is emitted to
	Live    Live

	// Upcast converts data of an earlier schema: see [Schema]. Nil: the shape of the
	// data has never changed.
	Upcast Upcast[Event]

	// OwnSchema reports that Event.Schema is not [Schema] but the version of the
	// content, such as a document's shape.
	OwnSchema bool

	// Of returns what an event in a stream without {thread} belongs to, from its data:
	// see [RecordType]. Nil: nothing. If Of returns an error, because it cannot read
	// the data, only admins may know of the event.
	Of func(data json.RawMessage) ([]string, error)

	// Names reports that the data may name threads, or records with an ID, that a
	// reader must not know of. Such a reader sees zeros instead of their digits.
	Names bool

	// Private reports that only admins may know of an event in a stream without
	// {thread}: its data names records that are for admins, or of other threads.
	Private bool

	// ChangesMayKnow reports that after such an event RecordType.MayKnow may have another
	// result for the thread in whose stream it is.
	ChangesMayKnow bool
}

// Live says whether events of a type are broadcast.
type Live int

// Whether events of a type are kept in the journal, broadcast, or both.
const (
	NotLive  Live = iota // in the journal
	AlsoLive             // broadcast, and later in the journal
	OnlyLive             // broadcast; never in the journal
)

// RecordType declares the records whose keys match a pattern.
type RecordType struct {
	Key   string // the pattern; no name of a lease (see [LeaseOf])
	About string
	Value any // the zero value of its Go type; nil: any JSON

	// Expire ends expired records. Nil: [DeleteExpired].
	Expire Expirer

	// LivesOn returns the idle time after which rec expires. It is for patterns
	// noun/{name}. Each write or event that belongs to the record (below its key, in
	// the stream of that name, or below app/ and its key) extends the record's life if
	// necessary, in the same commit. A commit extends it by a tenth more than the idle
	// time, so that not every commit has to; the record may thus expire up to a tenth
	// later. An extension changes the record's version but not its value. The commits of
	// an Expirer extend nothing.
	LivesOn func(rec Record) time.Duration

	// Of returns what a record without {thread} belongs to, from its value: the keys of
	// other records, such as thread/<id>. A reader that may not know of one of them may
	// not know of the record; nor may anyone if one of them does not exist, or is a
	// thread that has ended and left nothing that says who may read it. Nil: the
	// record belongs to what the record above it in the key belongs to; if there is
	// none, to no thread, so that every reader of the space may read it. What a record
	// belongs to never changes. A record may outlive what it belongs to by Of, as runs and
	// decisions outlive their thread: nobody deletes them with it.
	Of func(value json.RawMessage) ([]string, error)

	// MayKnow reports whether sp's actor may know of the thread with the given id and
	// of all that belongs to it, by its head or, once it has ended, by what it left. Only
	// the records thread/{thread} have it. Admins may know of every thread.
	MayKnow func(ctx context.Context, sp *Space, thread string) (bool, error)

	// ID is the prefix, such as "run", of the ids in the last part of the key, which is
	// its only part in braces, so that the id alone tells the key. In texts, such an id is
	// masked for readers that may not know of the record. Ids without a declared prefix,
	// such as those of records below thread/{thread}, are not masked.
	ID string

	// Upcast converts values of an earlier schema: see [Schema]. Writers of such
	// records set WriteOptions.Schema to Schema. Nil: the shape of the values has never
	// changed.
	Upcast Upcast[Record]

	Private bool // it is internal and only admins may read it
}

// LeaseType declares leases: see [Tx.Acquire]. The two records of a lease are private.
type LeaseType struct {
	Base   string // pattern of two parts or more, not below app/ or kv/
	About  string
	Expire Expirer // ends the expired record base/beat; nil: [DeleteExpired]
}

// records returns the two records of a lease.
func (l LeaseType) records() []RecordType {
	return []RecordType{
		{Key: l.Base + "/owner", About: l.About, Value: leaseOwner{}, Private: true},
		{Key: l.Base + "/beat", About: "expires unless the holder renews the lease", Value: leaseBeat{}, Expire: l.Expire, Private: true},
	}
}

// typeOf returns the Go type of a declared value; nil: any JSON.
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

// Decode returns ErrCorrupt if value does not fit the record's type.
func (r *RecordType) Decode(key string, value json.RawMessage) error {
	t := typeOf(r.Value)
	if t == nil {
		return nil
	}
	return journal.Decode("record "+key, value, reflect.New(t).Interface())
}

// GoType returns the Go type of the event's data; nil: any JSON.
func (e *EventType) GoType() reflect.Type { return typeOf(e.Data) }

// Report collects the findings of a [Concept]'s Check.
type Report struct {
	Problem func(format string, args ...any) // something is wrong
	Note    func(format string, args ...any) // nothing is wrong, but people should know
}
