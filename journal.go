package thole

import "github.com/thole-dev/thole/journal"

// The types of package journal that programs use.
type (
	Position = journal.Position
	Head     = journal.Head
	Event    = journal.Event
	Record   = journal.Record
	Delivery = journal.Delivery

	Check  = journal.Check
	Write  = journal.Write
	Commit = journal.Commit
	Result = journal.Result
	Purge  = journal.Purge

	ReadQuery   = journal.ReadQuery
	Page        = journal.Page
	ListQuery   = journal.ListQuery
	SpacesQuery = journal.SpacesQuery

	ConflictError    = journal.ConflictError
	TrimmedError     = journal.TrimmedError
	UnreachableError = journal.UnreachableError
)

// The sentinel errors of package journal.
var (
	ErrNotFound    = journal.ErrNotFound
	ErrExists      = journal.ErrExists
	ErrConflict    = journal.ErrConflict
	ErrInvalid     = journal.ErrInvalid
	ErrTooLarge    = journal.ErrTooLarge
	ErrTrimmed     = journal.ErrTrimmed
	ErrFenced      = journal.ErrFenced
	ErrDeadlock    = journal.ErrDeadlock
	ErrCancelled   = journal.ErrCancelled
	ErrCorrupt     = journal.ErrCorrupt
	ErrClosed      = journal.ErrClosed
	ErrFull        = journal.ErrFull
	ErrUnavailable = journal.ErrUnavailable
)

// The limits of a commit and of a page: see package journal.
const (
	MaxNameBytes   = journal.MaxNameBytes
	MaxValueBytes  = journal.MaxValueBytes
	MaxCommitItems = journal.MaxCommitItems
	MaxCommitBytes = journal.MaxCommitBytes
	MaxPage        = journal.MaxPage
)

// NewID returns prefix + "_" + 32 hex digits of a UUIDv7. See [journal.NewID].
func NewID(prefix string) string { return journal.NewID(prefix) }

// CheckID returns ErrInvalid unless id has the form that NewID(prefix) returns.
func CheckID(prefix, id string) error { return journal.CheckID(prefix, id) }

// ParsePosition parses the text form of a Position. See [journal.ParsePosition].
func ParsePosition(s string) (Position, error) { return journal.ParsePosition(s) }
