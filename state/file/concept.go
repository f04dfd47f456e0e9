package file

import "github.com/thole-dev/thole"

// Name is the concept's.
const Name = "file"

// Concept is what is known of files, and told.
var Concept = &thole.Concept{
	Name:  Name,
	About: "who made which content of a file out of which",
	Events: []thole.EventType{
		{Type: TypeChanged, Data: Change{}, Streams: []string{Stream}, About: "`found`: someone edited it without telling; `kept`: both contents are blobs"},
		{Type: TypeConflict, Data: Conflict{}, Streams: []string{Stream}, About: "an edit did not fit what the file had become, or others kept it from being applied"},
		{Type: TypeDone, Data: Done{}, Streams: []string{"thread/{thread}"}, About: "the reference agent's changes are whole for now: time to build, to show, to commit"},
	},
	Records: []thole.RecordType{
		{Key: "file/{path}", Value: record{}, About: "what is known of a file"},
	},
}
