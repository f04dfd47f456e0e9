package lock

import "github.com/thole-dev/thole"

// Name is the concept's name.
const Name = "lock"

var streams = []string{"lock/{name}"}

// Concept declares the events, records and leases of locks.
var Concept = &thole.Concept{
	Name:  Name,
	About: "named locks: leased, fenced, with a queue",
	Events: []thole.EventType{
		{Type: TypeAcquired, Data: Change{}, Streams: streams, Names: true, About: "an owner took the lock; the event's position is the fencing token"},
		{Type: TypeReleased, Data: Change{}, Streams: streams, Names: true, About: "the holder released the lock"},
		{Type: TypeExpired, Data: Change{}, Streams: streams, Names: true, About: "the holder did not renew the lock in time, or is known to be dead"},
	},
	Records: []thole.RecordType{
		{Key: "lock/{name}/queue", Value: []waiter{}, Private: true, About: "the waiters for a lock, in order"},
		{Key: "lock/{name}/wait/{ticket}", Value: sign{}, Expire: expire, Private: true, About: "a waiter's sign of life"},
		{Key: "lockwaits/{owner}", Value: []edge{}, Private: true, About: "what an owner waits for"},
	},
	Leases: []thole.LeaseType{
		{Base: "lock/{name}", Expire: expire, About: "the holder of a lock"},
		{Base: "lock/{name}/intent/{owner}", Expire: expire, About: "an announced intent"},
	},
}
