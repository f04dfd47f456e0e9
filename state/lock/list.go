package lock

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// Info is a lock in a listing.
type Info struct {
	Name    string       `json:"name"`
	Holder  *Holder      `json:"holder,omitempty"` // nil: nobody holds it
	Intents []Holder     `json:"intents,omitempty"`
	Waiters []WaiterInfo `json:"waiters,omitempty"` // in queue order, without dead ones
}

// Holder describes the holder of a lock.
type Holder struct {
	Owner   string         `json:"owner"` // "": it cannot be read; only in a list
	Since   time.Time      `json:"acquired_at"`
	Expires time.Time      `json:"expires_at,omitzero"` // zero: it has expired
	Token   thole.Position `json:"-"`                   // the fencing token
}

// WaiterInfo describes a waiter for a lock.
type WaiterInfo struct {
	Owner string    `json:"owner" names:"masked"`
	Since time.Time `json:"queued_at"`
}

// ListOptions of [Locks.List].
type ListOptions struct {
	After string // the Next of an earlier page: list the names after it
	Limit int    // 1…1,000; 0: 1,000
}

// List returns the locks that have a holder, an intent or a waiter, in the byte order of
// their escaped names. It leaves out what cannot be read (see [thole.Space.LeavesOut]), but
// a lock whose holder cannot be read is not free: its Holder has no Owner.
func (ls *Locks) List(ctx context.Context, opts *ListOptions) (thole.PageOf[Info], error) {
	var o ListOptions
	if opts != nil {
		o = *opts
	}
	limit := journal.PageLimit(o.Limit)
	q := thole.ListQuery{Prefix: "lock/"}
	if o.After != "" {
		q.After = q.Prefix + url.PathEscape(o.After) + "0" // the byte after /
	}
	var page thole.PageOf[Info]
	var current []thole.Record // of one lock
	end := func() error {
		info, err := describe(current, ls.sp.LeavesOut)
		if ls.sp.LeavesOut(current[0], err) { // its name
			info, err = Info{}, nil
		}
		if current = nil; err == nil && (info.Holder != nil || info.Intents != nil || info.Waiters != nil) {
			page.Items = append(page.Items, info)
		}
		return err
	}
	for {
		recs, err := ls.sp.List(ctx, q)
		if err != nil {
			return thole.PageOf[Info]{}, err
		}
		for _, rec := range recs {
			if len(current) > 0 && escapedName(rec.Key) != escapedName(current[0].Key) {
				if err := end(); err != nil {
					return thole.PageOf[Info]{}, err
				}
				if len(page.Items) == limit {
					page.Next = page.Items[limit-1].Name
					return page, nil
				}
			}
			current = append(current, rec)
		}
		if len(recs) < thole.MaxPage {
			if len(current) > 0 {
				return page, end()
			}
			return page, nil
		}
		q.After = recs[len(recs)-1].Key
	}
}

// Get returns the holder, the intents and the waiters of the named lock. A lock without
// any is not an error.
func (ls *Locks) Get(ctx context.Context, name string) (Info, error) {
	b, err := base(name)
	if err != nil {
		return Info{}, err
	}
	var recs []thole.Record
	for rec, err := range ls.sp.Records(ctx, b+"/") {
		if err != nil {
			return Info{}, err
		}
		recs = append(recs, rec)
	}
	if len(recs) == 0 {
		return Info{Name: name}, nil
	}
	return describe(recs, func(thole.Record, error) bool { return false })
}

func escapedName(key string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(key, "lock/"), "/")
	return name
}

// describe reads the records of one lock, which are in key order. It leaves out what
// leavesOut leaves out, but not that there is a holder.
func describe(recs []thole.Record, leavesOut func(thole.Record, error) bool) (Info, error) {
	name := escapedName(recs[0].Key)
	base := "lock/" + name
	var info Info
	var err error
	if info.Name, err = thole.UnescapeName(name); err != nil {
		return info, err
	}
	byKey := make(map[string]thole.Record, len(recs))
	for _, rec := range recs {
		byKey[rec.Key] = rec
	}
	var queue []waiter
	for _, rec := range recs {
		lease, isOwner := strings.CutSuffix(rec.Key, "/owner")
		switch {
		case isOwner:
			h := Holder{Token: rec.Version, Since: rec.Updated, Expires: byKey[lease+"/beat"].Expires}
			var v struct {
				Holder string `json:"holder"`
			}
			if err := rec.As(&v); err != nil && !leavesOut(rec, err) {
				return info, err
			}
			h.Owner = v.Holder
			if lease == base {
				info.Holder = &h
			} else {
				info.Intents = append(info.Intents, h)
			}
		case rec.Key == queueKey(base):
			if err := rec.As(&queue); err != nil && !leavesOut(rec, err) {
				return info, err
			}
		}
	}
	for _, w := range queue {
		if byKey[signKey(base, w.Ticket)].Exists() {
			info.Waiters = append(info.Waiters, WaiterInfo{Owner: w.Owner, Since: w.Since})
		}
	}
	return info, nil
}
