package file

import "github.com/thole-dev/thole"

// Name is the concept's name.
const Name = "file"

// Concept declares the events and records of files.
var Concept = &thole.Concept{
	Name:  Name,
	About: "changes of files: who made which content from which",
	Events: []thole.EventType{
		{Type: TypeChanged, Data: Change{}, Streams: []string{Stream}, About: "a file changed; `found`: someone edited it without recording it; `kept`: both contents are blobs"},
		{Type: TypeConflict, Data: Conflict{}, Streams: []string{Stream}, About: "an edit did not fit the file's current content, or others kept it from being applied"},
		{Type: TypeDone, Data: Done{}, Streams: []string{"thread/{thread}"}, About: "the reference agent completed a set of changes: time to build, show or commit"},
	},
	Records: []thole.RecordType{
		{Key: "file/{path}", Value: record{}, About: "the recorded state of a file"},
	},
}
