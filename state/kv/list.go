package kv

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// ListOptions of [Store.List]. The zero value lists a namespace from its start.
type ListOptions struct {
	Prefix string // only keys that begin with it; any text
	After  string // go on after this key: the Next of the page before
	Limit  int    // 1…1,000; 0: 1,000
}

// List returns the entries of a namespace in the byte order of their escaped
// keys. A page is one moment's view; the whole listing is not.
func (s *Store) List(ctx context.Context, namespace string, opts *ListOptions) (thole.PageOf[Entry], error) {
	var o ListOptions
	if opts != nil {
		o = *opts
	}
	if namespace == "" {
		return thole.PageOf[Entry]{}, fmt.Errorf("%w: kv needs a namespace", thole.ErrInvalid)
	}
	base := below(namespace)
	prefix := base + url.PathEscape(o.Prefix)
	limit := journal.PageLimit(o.Limit)
	var recs []thole.NamedRecord
	after := o.After
	if after == "" && o.Prefix != "" {
		// Lists go on after a key, so the first one is looked up by itself.
		after = o.Prefix
		first, err := s.sp.Get(ctx, prefix)
		if err != nil {
			return thole.PageOf[Entry]{}, err
		}
		if first.Exists() {
			recs = append(recs, thole.NamedRecord{Name: o.Prefix, Record: first})
		}
	}
	// One more than asked for tells whether there is a next page.
	rest, next, err := s.sp.ListByName(ctx, base, after, min(limit+1, thole.MaxPage))
	if err != nil {
		return thole.PageOf[Entry]{}, err
	}
	var page thole.PageOf[Entry]
	for _, rec := range append(recs, rest...) {
		if !strings.HasPrefix(rec.Key, prefix) {
			return page, nil
		}
		if len(page.Items) == limit {
			page.Next = page.Items[limit-1].Key
			return page, nil
		}
		page.Items = append(page.Items, entry(namespace, rec.Name, rec.Record))
	}
	page.Next = next
	return page, nil
}
