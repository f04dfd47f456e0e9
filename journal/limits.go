package journal

// Limits of a commit and of a page. The Store enforces them (ErrTooLarge), so a Backend
// never sees more. Store larger content as a blob.
const (
	MaxNameBytes   = 256       // of a key, a stream or a type
	MaxValueBytes  = 512 << 10 // of an event's data or a record's value
	MaxCommitItems = 256       // checks + events + writes
	MaxCommitBytes = 4 << 20
	MaxPage        = 1000 // of a list or a read; a larger or zero Limit means this
)
