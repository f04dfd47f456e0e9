// Package look bounds how much a request reads while it filters: most of what it reads
// may not match, and items may be large.
package look

const (
	MaxItems = 4096     // approximate limit of the items read for one answer
	MaxBytes = 16 << 20 // approximate limit of their bytes
	MaxPage  = 64       // items read at a time, since each may be large
)

// A Budget counts what was read for one answer. The zero Budget is unspent.
type Budget struct{ page, items, bytes int }

// Page returns how many items to read next: at first as many as are asked for, then
// twice as many each time, at most [MaxPage].
func (b *Budget) Page(asked int) int {
	b.page = min(max(asked, 1, 2*b.page), MaxPage)
	return b.page
}

// Took adds items that were read, and their bytes.
func (b *Budget) Took(items, bytes int) {
	b.items += items
	b.bytes += bytes
}

// Spent reports whether a limit is reached, so that the answer must end with what was
// found so far.
func (b *Budget) Spent() bool { return b.items >= MaxItems || b.bytes >= MaxBytes }

// Looked returns the counts.
func (b *Budget) Looked() (items, bytes int) { return b.items, b.bytes }
