package thole

// PageOf is a part of a list. With a filter, or where records cannot be read, a page may
// hold fewer items than were asked for although there are more; only an empty Next means
// the end.
type PageOf[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next_cursor" doc:"pass it as cursor to get the next page; empty: this is the last one for now"`

	// With a filter: how many items were read to fill the page, and their approximate
	// bytes. 0 in lists without one.
	Looked int `json:"-"`
	Bytes  int `json:"-"`
}
