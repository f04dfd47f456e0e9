package auth

import "github.com/thole-dev/thole"

// Name is the name of the concept.
const Name = "token"

// Concept declares the records and events of tokens, which are in the space global.
// The records are reserved: see [thole.Reserved].
var Concept = &thole.Concept{
	Name:  Name,
	About: "tokens and what they grant, in the space `global`",
	Events: []thole.EventType{
		{Type: TypeCreated, Data: Token{}, Upcast: thole.Renamed[thole.Event](times), Streams: []string{"token"}, About: "a token was made; its secret is not in the event"},
		{Type: TypeRevoked, Data: Revoked{}, Streams: []string{"token"}, About: "the token is not valid any more"},
	},
	Records: []thole.RecordType{
		{Key: "token/{token}", Value: stored{}, Upcast: thole.Renamed[thole.Record](times), Private: true, About: "a token, with the hash of its secret"},
	},
}

// times maps the names that a token's times had before schema 2 to today's.
var times = map[string]string{"created": "created_at", "expires": "expires_at"}
