// Package router combines several backends into one: each space lives in one of them,
// which rules choose by the space's name.
package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thole-dev/thole/journal"
)

// Rule names the backend of the spaces that match a pattern.
type Rule struct {
	Pattern string // "kind:*", one space such as "project:shop", or "*"
	Backend journal.Backend
}

// Backend is several backends as one. A space lives in the backend of the first
// rule that matches it. A space that was stored elsewhere under other rules is hidden.
type Backend struct {
	rules []Rule
	parts []journal.Backend // the backends of the rules, each once

	silence silence
}

// New returns a [Backend] that applies the rules in their order and owns their
// backends. A backend may have several rules. The space global, which every Store
// needs, lives in the first rule's backend unless a rule matches it. New returns
// ErrInvalid if there are no rules, for a malformed pattern, and for a rule whose
// spaces an earlier rule already covers.
func New(rules ...Rule) (*Backend, error) {
	if len(rules) == 0 {
		return nil, fmt.Errorf("%w: a router needs at least one rule", journal.ErrInvalid)
	}
	b := &Backend{rules: slices.Clone(rules), silence: silence{until: make(map[int]time.Time)}}
	for i, r := range rules {
		if err := checkPattern(r.Pattern); err != nil {
			return nil, err
		}
		for _, earlier := range rules[:i] {
			if covers(earlier.Pattern, r.Pattern) {
				return nil, fmt.Errorf("%w: the rule %q comes too late: %q takes all of its spaces", journal.ErrInvalid, r.Pattern, earlier.Pattern)
			}
		}
		if !slices.Contains(b.parts, r.Backend) {
			b.parts = append(b.parts, r.Backend)
		}
	}
	return b, nil
}

func checkPattern(p string) error {
	if err := journal.CheckSpacePattern(p); err != nil {
		return fmt.Errorf("a rule: %w", err)
	}
	return nil
}

// covers reports whether pattern p matches every space that q matches.
func covers(p, q string) bool {
	return p == q || matches(p, q)
}

// matches reports whether pattern p matches a space, or every space of a pattern.
func matches(p, space string) bool {
	prefix, wild := strings.CutSuffix(p, "*")
	return p == space || wild && strings.HasPrefix(space, prefix)
}

// part returns the index of the backend that a space lives in, ErrInvalid if no rule
// matches.
func (b *Backend) part(space string) (int, error) {
	for _, r := range b.rules {
		if matches(r.Pattern, space) {
			return slices.Index(b.parts, r.Backend), nil
		}
	}
	if space == "global" {
		return 0, nil
	}
	patterns := make([]string, len(b.rules))
	for i, r := range b.rules {
		patterns[i] = r.Pattern
	}
	return 0, fmt.Errorf("%w: no store is named for the space %.80q; there are rules for %s", journal.ErrInvalid, space, strings.Join(patterns, ", "))
}

// in returns the backend that a space lives in.
func (b *Backend) in(space string) (journal.Backend, error) {
	i, err := b.part(space)
	if err != nil {
		return nil, err
	}
	return b.parts[i], nil
}

// split returns, for each backend, the indexes of the names that live there, and
// calls without for each name that no rule matches.
func (b *Backend) split(n int, name func(i int) string, without func(i int, err error)) [][]int {
	of := make([][]int, len(b.parts))
	for i := range n {
		part, err := b.part(name(i))
		if err != nil {
			without(i, err)
			continue
		}
		of[part] = append(of[part], i)
	}
	return of
}

// each calls do in parallel for every backend that has something to do, and returns
// their joined errors.
func (b *Backend) each(of [][]int, do func(part int, at []int) error) error {
	return errors.Join(b.eachError(of, do)...)
}

// eachError is each, but returns the errors by the index of the backend.
func (b *Backend) eachError(of [][]int, do func(part int, at []int) error) []error {
	errs := make([]error, len(b.parts))
	var wg sync.WaitGroup
	for part, at := range of {
		if len(at) > 0 {
			wg.Go(func() { errs[part] = do(part, at) })
		}
	}
	wg.Wait()
	return errs
}

// Commit implements [journal.Backend]. A commit to a space without a rule has a Result
// whose Err is ErrInvalid. If one of several backends fails, the Results of its commits
// have its error, and it is unknown which of them were applied.
func (b *Backend) Commit(ctx context.Context, batch []journal.Commit) ([]journal.Result, error) {
	results := make([]journal.Result, len(batch))
	of := b.split(len(batch), func(i int) string { return batch[i].Space }, func(i int, err error) { results[i].Err = err })
	for part, at := range of {
		if len(at) == len(batch) { // also for an empty batch, so that a closed backend returns ErrClosed
			return b.parts[part].Commit(ctx, batch)
		}
	}
	errs := b.eachError(of, func(part int, at []int) error {
		sub := make([]journal.Commit, len(at))
		for i, n := range at {
			sub[i] = batch[n]
		}
		got, err := b.parts[part].Commit(ctx, sub)
		if err == nil && len(got) != len(sub) {
			err = fmt.Errorf("router: a backend answered %d commits with %d results", len(sub), len(got))
		}
		for i, n := range at {
			if err != nil {
				results[n].Err = err
			} else {
				results[n] = got[i]
			}
		}
		return err
	})
	for _, err := range errs {
		if errors.Is(err, journal.ErrClosed) {
			return nil, err
		}
	}
	return results, nil
}

// Get implements [journal.Backend].
func (b *Backend) Get(ctx context.Context, space string, keys ...string) ([]journal.Record, error) {
	in, err := b.in(space)
	if err != nil {
		return nil, err
	}
	return in.Get(ctx, space, keys...)
}

// List implements [journal.Backend].
func (b *Backend) List(ctx context.Context, space string, q journal.ListQuery) ([]journal.Record, error) {
	in, err := b.in(space)
	if err != nil {
		return nil, err
	}
	return in.List(ctx, space, q)
}

// Read implements [journal.Backend].
func (b *Backend) Read(ctx context.Context, space string, q journal.ReadQuery) (journal.Page, error) {
	in, err := b.in(space)
	if err != nil {
		return journal.Page{}, err
	}
	return in.Read(ctx, space, q)
}

// Heads implements [journal.Backend]. If some of the backends do not answer, the error
// is a *[journal.UnreachableError], and the heads of their spaces have no name.
func (b *Backend) Heads(ctx context.Context, spaces ...string) ([]journal.Head, error) {
	if len(spaces) == 0 {
		return b.parts[0].Heads(ctx)
	}
	var without error
	of := b.split(len(spaces), func(i int) string { return spaces[i] }, func(_ int, err error) { without = err })
	if without != nil {
		return nil, without
	}
	heads := make([]journal.Head, len(spaces))
	errs := b.eachError(of, func(part int, at []int) error {
		names := make([]string, len(at))
		for i, n := range at {
			names[i] = spaces[n]
		}
		return b.ask(ctx, part, func(ctx context.Context) error {
			got, err := b.parts[part].Heads(ctx, names...)
			if err != nil {
				return err
			}
			for i, n := range at {
				heads[n] = got[i]
			}
			return nil
		})
	})
	if err := b.answered(ctx, errs, count(of)); err != nil {
		if errors.As(err, new(*journal.UnreachableError)) {
			return heads, err
		}
		return nil, err
	}
	return heads, nil
}

// count returns how many backends have something to do.
func count(of [][]int) (n int) {
	for _, at := range of {
		if len(at) > 0 {
			n++
		}
	}
	return n
}

// Spaces implements [journal.Backend]: it merges the spaces of all backends. If some of
// the backends do not answer, the error is a *[journal.UnreachableError], and their
// spaces are missing.
func (b *Backend) Spaces(ctx context.Context, q journal.SpacesQuery) ([]string, error) {
	limit := journal.PageLimit(q.Limit)
	lists := make([][]string, len(b.parts))
	all := make([][]int, len(b.parts))
	for part := range b.parts {
		all[part] = []int{part}
	}
	errs := b.eachError(all, func(part int, _ []int) error {
		return b.ask(ctx, part, func(ctx context.Context) (err error) {
			lists[part], err = b.spacesOf(ctx, part, q, limit)
			return err
		})
	})
	err := b.answered(ctx, errs, len(b.parts))
	if err != nil && !errors.As(err, new(*journal.UnreachableError)) {
		return nil, err
	}
	names := slices.Concat(lists...)
	slices.Sort(names)
	return names[:min(len(names), limit)], err
}

// spacesOf returns limit or more spaces that live in one backend, or all if there are
// fewer. It skips spaces that the rules place elsewhere.
func (b *Backend) spacesOf(ctx context.Context, part int, q journal.SpacesQuery, limit int) ([]string, error) {
	var names []string
	for {
		page, err := b.parts[part].Spaces(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, name := range page {
			if at, err := b.part(name); err == nil && at == part {
				names = append(names, name)
			}
		}
		if len(names) >= limit || len(page) < journal.PageLimit(q.Limit) {
			return names, nil
		}
		q.After = page[len(page)-1]
	}
}

// Load implements [journal.Backend].
func (b *Backend) Load(ctx context.Context, space string, c journal.Chunk) error {
	in, err := b.in(space)
	if err != nil {
		return err
	}
	return in.Load(ctx, space, c)
}

// Purge implements [journal.Backend].
func (b *Backend) Purge(ctx context.Context, space string, p journal.Purge) error {
	in, err := b.in(space)
	if err != nil {
		return err
	}
	return in.Purge(ctx, space, p)
}

// Close implements [journal.Backend]: it closes all backends.
func (b *Backend) Close() error {
	errs := make([]error, len(b.parts))
	for i, part := range b.parts {
		errs[i] = part.Close()
	}
	return errors.Join(errs...)
}
