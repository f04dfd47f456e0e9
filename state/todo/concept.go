package todo

import (
	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// Name is the concept's name.
const Name = "todo"

// Concept declares the events and records of task lists.
var Concept = &thole.Concept{
	Name:  Name,
	About: "the task list of a thread",
	Needs: []*thole.Concept{thread.Concept},
	Events: []thole.EventType{
		{Type: TypeChanged, Data: Change{}, Streams: []string{"thread/{thread}"}, About: "items as they are now; `order` only if it changed other than by adding"},
	},
	Records: []thole.RecordType{
		{Key: "thread/{thread}/todos", Value: []Todo{}, About: "the list, in order"},
	},
}
