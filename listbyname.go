package thole

import (
	"context"
	"fmt"
	"net/url"

	"github.com/thole-dev/thole/journal"
)

// NamedRecord is a record whose key is a prefix followed by a percent-escaped name from
// outside. A NameKind decides which names are valid.
type NamedRecord struct {
	Name string
	Record
}

// ListByName lists records like [Space.List], by the names that their keys contain: at
// most limit (0: MaxPage) of those under prefix whose names come after the name after
// ("": from the first), in the byte order of the escaped names. To continue, pass next
// as after; "": there are no more. It leaves out keys that are not escaped: see
// [Space.LeavesOut].
func (sp *Space) ListByName(ctx context.Context, prefix, after string, limit int) (list []NamedRecord, next string, err error) {
	q := ListQuery{Prefix: prefix, Limit: journal.PageLimit(limit)}
	if after != "" {
		q.After = prefix + url.PathEscape(after)
	}
	for {
		recs, err := sp.List(ctx, q)
		if err != nil {
			return nil, "", err
		}
		for _, rec := range recs {
			if name, err := UnescapeName(rec.Key[len(prefix):]); !sp.LeavesOut(rec, err) {
				list = append(list, NamedRecord{name, rec})
			}
		}
		switch {
		case len(recs) < q.Limit:
			return list, "", nil
		case len(list) > 0:
			return list, list[len(list)-1].Name, nil
		}
		q.After = recs[len(recs)-1].Key
	}
}

// UnescapeName returns the name that part of a key stands for. A part that url.PathEscape
// makes of no name is ErrCorrupt: a list, which goes on behind a name, would never end.
func UnescapeName(part string) (string, error) {
	name, err := url.PathUnescape(part)
	if err == nil && url.PathEscape(name) != part {
		err = fmt.Errorf("the name %q is written as %q", name, url.PathEscape(name))
	}
	if err != nil {
		return "", fmt.Errorf("%w: part %q of a key: %v", ErrCorrupt, part, err)
	}
	return name, nil
}
