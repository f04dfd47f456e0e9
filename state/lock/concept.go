package lock

import "github.com/thole-dev/thole"

// Name is the concept's.
const Name = "lock"

var streams = []string{"lock/{name}"}

// Concept is what locks keep and tell.
var Concept = &thole.Concept{
	Name:  Name,
	About: "named locks: leased, fenced, with a queue",
	Events: []thole.EventType{
		{Type: TypeAcquired, Data: Change{}, Streams: streams, Names: true, About: "the event's position is the fencing token"},
		{Type: TypeReleased, Data: Change{}, Streams: streams, Names: true, About: "its holder gave it back"},
		{Type: TypeExpired, Data: Change{}, Streams: streams, Names: true, About: "its holder is dead"},
	},
	Records: []thole.RecordType{
		{Key: "lock/{name}/queue", Value: []waiter{}, Private: true, About: "who waits, in order"},
		{Key: "lock/{name}/wait/{ticket}", Value: sign{}, Expire: expire, Private: true, About: "a waiter's sign of life"},
		{Key: "lockwaits/{owner}", Value: []edge{}, Private: true, About: "what an owner waits for"},
	},
	Leases: []thole.LeaseType{
		{Base: "lock/{name}", Expire: expire, About: "who holds a lock"},
		{Base: "lock/{name}/intent/{owner}", Expire: expire, About: "who announced an intent"},
	},
}
