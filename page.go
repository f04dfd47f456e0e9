package thole

// PageOf is a part of a list. With a filter a page may hold fewer items than were asked
// for although there are more; only an empty Next means the end.
type PageOf[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next_cursor" doc:"pass it as cursor to get the next page; empty: this is the last one for now"`

	// How many items were read for the page, and their size; 0 where that is about
	// what it holds.
	Looked int `json:"-"`
	Bytes  int `json:"-"`
}
