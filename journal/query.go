package journal

import (
	"slices"
	"strings"
	"time"
)

// This file has the queries, and the rules of matching that all backends share.

// PageLimit returns how many items a page with the given Limit may hold: 1…MaxPage.
func PageLimit(limit int) int {
	if limit <= 0 || limit > MaxPage {
		return MaxPage
	}
	return limit
}

// Match reports whether q selects e, ignoring After, Backward and Limit. Before
// compares whole positions.
func (q ReadQuery) Match(e Event) bool {
	switch {
	case q.Stream != "" && q.Stream != e.Stream,
		!q.Before.IsZero() && e.Position.Compare(q.Before) >= 0,
		q.Actor != "" && q.Actor != e.Actor,
		q.Subject != "" && q.Subject != e.Subject,
		!q.Since.IsZero() && e.Time.Before(q.Since),
		!q.Until.IsZero() && !e.Time.Before(q.Until):
		return false
	}
	return MatchType(q.Types, e.Type)
}

// MatchType reports whether typ is one of types, where "noun.*" matches any verb. An
// empty list matches every type.
func MatchType(types []string, typ string) bool {
	if len(types) == 0 {
		return true
	}
	return slices.ContainsFunc(types, func(t string) bool {
		if noun, ok := strings.CutSuffix(t, "*"); ok && strings.HasSuffix(noun, ".") {
			return strings.HasPrefix(typ, noun)
		}
		return t == typ
	})
}

// Match reports whether q selects r, ignoring Limit.
func (q ListQuery) Match(r Record) bool {
	return strings.HasPrefix(r.Key, q.Prefix) &&
		(q.After == "" || r.Key > q.After) &&
		(q.DueBy.IsZero() || r.Expired(q.DueBy))
}

// ReadQuery selects events. The zero value reads all, from the oldest. An event must
// match all fields that are set.
type ReadQuery struct {
	Stream   string    // exactly this stream; "": all
	After    Position  // only events after this position, which must be resumable
	Before   Position  // only events before this position; zero: no bound
	Backward bool      // newest first
	Limit    int       // at most this many, 1…MaxPage; 0: MaxPage
	Types    []string  // one of these; "noun.*" matches any verb. Empty: all
	Actor    string    // exactly
	Subject  string    // exactly
	Since    time.Time // Time ≥ Since
	Until    time.Time // Time < Until
}

// Page is a part of a journal. A backend bounds its work per page, so with a filter a
// page may have fewer events than the limit, even none, before the end.
type Page struct {
	Events []Event
	Next   Position // pass as After (backward: as Before) to continue; zero: there are no more now
}

// ListQuery selects records by key.
type ListQuery struct {
	Prefix string    // "" or ending in "/"
	After  string    // only keys greater than it
	Limit  int       // 1…MaxPage; 0: MaxPage
	DueBy  time.Time // only records with Expires ≤ DueBy; zero: all
}

// SpacesQuery selects spaces by name.
type SpacesQuery struct {
	After string
	Limit int       // 1…MaxPage; 0: MaxPage
	DueBy time.Time // only spaces with a record with Expires ≤ DueBy; the list may have too many, never too few
}
