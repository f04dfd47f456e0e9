package remote

import "github.com/thole-dev/thole/journal"

// What client and server agree on. Package api/wire is the server.
//
//	GET  /v1/backend            Hello
//	POST /v1/backend/commit     Request{Batch}          → Answer{Results}
//	POST /v1/backend/get        Request{Space, Names}   → Answer{Records}
//	POST /v1/backend/list       Request{Space, List}    → Answer{Records}
//	POST /v1/backend/read       Request{Space, Read}    → Answer{Page}
//	POST /v1/backend/heads      Request{Names}          → Answer{Heads}
//	POST /v1/backend/spaces     Request{Spaces}         → Answer{Names}
//	POST /v1/backend/load       Request{Space, Chunk}
//	POST /v1/backend/purge      Request{Space, Purge}
//	GET  /v1/backend/watch      event stream: "wake" with a space's name; first "", all of them
//	POST /v1/backend/signals    Request{Broadcasts}
//	GET  /v1/backend/signals    event stream: "signal" with a journal.Broadcast
//
// Bodies of POST and their answers are messages, see [Request.Encode]. Errors
// are problems, as everywhere in the REST API.
const (
	// Protocol is the version of all this. A server says its own in Hello.
	Protocol = 1

	// Root is the path of Hello, and begins all others.
	Root = "/v1/backend"

	// MediaType is that of a message.
	MediaType = "application/vnd.thole.message"

	// MaxRequest bounds a request's bytes.
	MaxRequest = 24 << 20
)

// Headers of a change: commit, load and purge.
const (
	// HeaderInstance names a server process: in an answer the one that gave it,
	// in a request the only one that may carry it out. Another one says 421.
	HeaderInstance = "Thole-Instance"

	// HeaderChange is "<client> <number> <finished>": who sends the change, which
	// one of theirs it is, counted from 1, and below which number they wait for
	// no answer any more. The server carries each change out once and gives a
	// repeat the first one's answer.
	HeaderChange = "Thole-Change"

	// HeaderOutcome is "unknown" with an error after which some of the change may
	// have been applied. Without it nothing was.
	HeaderOutcome = "Thole-Outcome"
	Unknown       = "unknown"
)

// Hello is what a server says of itself.
type Hello struct {
	Protocol   int                `json:"protocol"`
	Instance   string             `json:"instance"` // of this process
	Durability journal.Durability `json:"durability"`
	Version    string             `json:"version,omitempty"`
	UpTo       bool               `json:"purge_up_to,omitempty"` // it knows [journal.Purge.UpTo]
}

// Request is what a call takes. Each operation uses some of the fields.
type Request struct {
	Space      string
	Names      []string // of records or spaces
	Batch      []journal.Commit
	List       journal.ListQuery
	Read       journal.ReadQuery
	Spaces     journal.SpacesQuery
	Purge      journal.Purge
	Chunk      journal.Chunk
	Broadcasts []journal.Broadcast
	Partial    bool // the client understands an answer of which a part is an error
}

// Answer is what a call gives. Each operation uses some of the fields.
type Answer struct {
	Results []journal.Result
	Records []journal.Record
	Page    journal.Page
	Heads   []journal.Head
	Names   []string
}
