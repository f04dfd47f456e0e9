// Package look bounds what one answer looks at while it picks out what it holds:
// what is left out may be much, and large.
package look

const (
	MaxItems = 4096     // about as many items are looked at for one answer
	MaxBytes = 16 << 20 // about as much data
	MaxPage  = 64       // items are read at a time, since each may be large
)

// A Budget counts what an answer has looked at. The zero Budget is unspent.
type Budget struct{ page, items, bytes int }

// Page returns how many items to read next: first as many as are asked for, then
// twice as many each time, but at most [MaxPage].
func (b *Budget) Page(asked int) int {
	b.page = min(max(asked, 1, 2*b.page), MaxPage)
	return b.page
}

// Took counts items that were looked at, and the bytes that they have.
func (b *Budget) Took(items, bytes int) {
	b.items += items
	b.bytes += bytes
}

// Spent reports whether the answer ends with what was found so far.
func (b *Budget) Spent() bool { return b.items >= MaxItems || b.bytes >= MaxBytes }

// Looked returns what was counted.
func (b *Budget) Looked() (items, bytes int) { return b.items, b.bytes }
