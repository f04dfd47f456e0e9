package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/thole-dev/thole/backend/router"
	"github.com/thole-dev/thole/journal"
)

// OpenAll opens the stores as one backend. They are either a single DSN or rules
// "PATTERN=DSN" that say which spaces live in which store: "user:*=postgres://…",
// "project:shop=sqlite:shop.db", "*=sqlite:other.db". The first rule that matches a
// space decides; see [router.New]. OpenAll opens a DSN in several rules once. If some
// stores are journal.ErrUnavailable, but not all, it opens those later, as soon as it
// can; see [router.Later]. On an error it closes what it opened.
func OpenAll(ctx context.Context, stores []string) (journal.Backend, error) {
	if len(stores) == 1 {
		if _, _, rule := CutRule(stores[0]); !rule {
			return Open(ctx, stores[0])
		}
	}
	open := make(map[string]journal.Backend)
	var rules []router.Rule
	var late []error
	fail := func(err error) (journal.Backend, error) {
		errs := []error{err}
		for _, b := range open {
			errs = append(errs, b.Close())
		}
		return nil, errors.Join(errs...)
	}
	for _, store := range stores {
		pattern, dsn, rule := CutRule(store)
		if !rule {
			return fail(fmt.Errorf("%w: store %q is one of several and does not say which spaces live there: use PATTERN=DSN, such as *=%s", journal.ErrInvalid, store, store))
		}
		if open[dsn] == nil {
			b, err := Open(ctx, dsn)
			if errors.Is(err, journal.ErrUnavailable) && ctx.Err() == nil {
				late = append(late, err)
				b, err = router.Later(err, func(ctx context.Context) (journal.Backend, error) { return Open(ctx, dsn) }), nil
			}
			if err != nil {
				return fail(err)
			}
			open[dsn] = b
		}
		rules = append(rules, router.Rule{Pattern: pattern, Backend: open[dsn]})
	}
	if len(late) > 0 && len(late) == len(open) {
		return fail(errors.Join(late...))
	}
	b, err := router.New(rules...)
	if err != nil {
		return fail(err)
	}
	return b, nil
}

// CutRule splits "PATTERN=DSN" and reports whether store is such a rule. If not, dsn
// is the whole of store. An = belongs to the DSN if a / comes before it or no scheme
// follows it.
func CutRule(store string) (pattern, dsn string, rule bool) {
	pattern, dsn, ok := strings.Cut(store, "=")
	scheme, _, hasScheme := strings.Cut(dsn, ":")
	if !ok || !hasScheme || scheme == "" || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz") != "" || strings.Contains(pattern, "/") {
		return "", store, false
	}
	return pattern, dsn, true
}
