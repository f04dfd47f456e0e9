package document

import "github.com/thole-dev/thole"

// Name is the concept's name.
const Name = "document"

// Concept declares the events and records of documents.
var Concept = &thole.Concept{
	Name:  Name,
	About: "named JSON documents with versions, of a space or of a thread",
	Events: []thole.EventType{
		{Type: TypeChanged, Data: Change{}, OwnSchema: true, Streams: []string{"document/{name}", "thread/{thread}"},
			About: "`patch` (RFC 6902) leads from version `previous` to this one; those of a thread's state are in the thread's stream"},
	},
	Records: []thole.RecordType{
		{Key: "document/{name}", Value: record{}, About: "a document"},
		{Key: "thread/{thread}/state", Value: record{}, About: "a thread's state"},
	},
	Check: check,
}
