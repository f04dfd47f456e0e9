package thole

import "github.com/thole-dev/thole/journal"

// The words of package journal that programs meet.
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

// The sentinel errors: see package journal.
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

// The limits of what a commit or a page holds.
const (
	MaxNameBytes   = journal.MaxNameBytes
	MaxValueBytes  = journal.MaxValueBytes
	MaxCommitItems = journal.MaxCommitItems
	MaxCommitBytes = journal.MaxCommitBytes
	MaxPage        = journal.MaxPage
)

// NewID returns prefix + "_" + 32 hex digits of a UUIDv7. See [journal.NewID].
func NewID(prefix string) string { return journal.NewID(prefix) }

// CheckID returns ErrInvalid for an id that NewID(prefix) does not make.
func CheckID(prefix, id string) error { return journal.CheckID(prefix, id) }

// ParsePosition reads the text form of a Position, or returns ErrInvalid.
func ParsePosition(s string) (Position, error) { return journal.ParsePosition(s) }
