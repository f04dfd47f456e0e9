package auth

import "github.com/thole-dev/thole"

// Name is the concept's.
const Name = "token"

// Concept is what tokens keep and tell, in the space global. Its records are
// reserved: see [thole.Reserved].
var Concept = &thole.Concept{
	Name:  Name,
	About: "tokens and what they grant",
	Events: []thole.EventType{
		{Type: TypeCreated, Data: Token{}, Upcast: thole.Renamed[thole.Event](times), Streams: []string{"token"}, About: "a token was made; never the secret"},
		{Type: TypeRevoked, Data: Revoked{}, Streams: []string{"token"}, About: "it is worth nothing any more"},
	},
	Records: []thole.RecordType{
		{Key: "token/{token}", Value: stored{}, Upcast: thole.Renamed[thole.Record](times), Private: true, About: "a token, with the hash of its secret"},
	},
}

// times are the names that the times of a token had before schema 2.
var times = map[string]string{"created": "created_at", "expires": "expires_at"}
