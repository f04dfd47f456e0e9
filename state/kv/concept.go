package kv

import "github.com/thole-dev/thole"

// Name is the concept's name.
const Name = "kv"

var streams = []string{"kv/{namespace}"}

// Concept declares the events and records of key-value storage.
var Concept = &thole.Concept{
	Name:  Name,
	About: "plain values under a namespace and a key",
	Events: []thole.EventType{
		{Type: TypeSet, Data: Change{}, Upcast: upcast, Streams: streams, About: "a value was set; it is not in the event"},
		{Type: TypeDeleted, Data: Change{}, Upcast: upcast, Streams: streams, About: "a value was deleted"},
		{Type: TypeExpired, Data: Change{}, Upcast: upcast, Streams: streams, About: "a value's time to live ran out"},
	},
	Records: []thole.RecordType{
		{Key: "kv/{namespace}/{key}", Expire: expire, About: "a value"},
	},
}

var upcast = thole.Renamed[thole.Event](map[string]string{"expires": "expires_at"})
