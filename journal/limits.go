package journal

// Limits of what a commit may carry. The Store enforces them (ErrTooLarge), so
// a Backend never sees more. Larger content is a blob.
const (
	MaxNameBytes   = 256       // of a key, a stream or a type
	MaxValueBytes  = 512 << 10 // of an event's data or a record's value
	MaxCommitItems = 256       // checks + events + writes
	MaxCommitBytes = 4 << 20
	MaxPage        = 1000 // of a list or a read; a larger or zero Limit means this
)
