package remote

import "github.com/thole-dev/thole/journal"

// The protocol between client and server. Package api/wire is the server.
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
//	GET  /v1/backend/watch      event stream: "wake" with a space's name; first "" for all spaces
//	POST /v1/backend/broadcasts Request{Broadcasts}
//	GET  /v1/backend/broadcasts event stream: "broadcast" with a journal.Broadcast
//
// Bodies of POST and their answers are messages, see [Request.Encode]. Errors
// are problems, as everywhere in the REST API.
const (
	// Protocol is the version of the protocol. Hello has the server's version.
	Protocol = 1

	// Root is the path of Hello and the prefix of all other paths.
	Root = "/v1/backend"

	// MediaType is the media type of a message.
	MediaType = "application/vnd.thole.message"

	// MaxRequest is the most bytes a request may have.
	MaxRequest = 24 << 20
)

// Headers of a change: commit, load and purge.
const (
	// HeaderInstance names a server process: in an answer, the one that sent it;
	// in a request, the only one that may apply it. Another process answers 421.
	HeaderInstance = "Thole-Instance"

	// HeaderChange is "<client> <number> <finished>": the client's name, the
	// number of the change, counted from 1 per client, and the number below which
	// the client waits for no answers any more. The server applies each change
	// once and answers a repeat with the first answer.
	HeaderChange = "Thole-Change"

	// HeaderOutcome is "unknown" in an error answer if a part of the change may
	// have been applied. Without the header, nothing was applied.
	HeaderOutcome = "Thole-Outcome"
	Unknown       = "unknown"
)

// Hello describes a server.
type Hello struct {
	Protocol   int                `json:"protocol"`
	Instance   string             `json:"instance"` // of this process
	Durability journal.Durability `json:"durability"`
	Version    string             `json:"version,omitempty"`
	UpTo       bool               `json:"purge_up_to,omitempty"` // it supports [journal.Purge.UpTo]
}

// Request holds the arguments of a call. Each operation uses some of the fields.
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
	Partial    bool // the client accepts errors in single Results
}

// Answer holds the results of a call. Each operation uses some of the fields.
type Answer struct {
	Results []journal.Result
	Records []journal.Record
	Page    journal.Page
	Heads   []journal.Head
	Names   []string
}
