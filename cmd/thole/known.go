package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
)

// fewNames is how many of the names that are known a message lists.
const fewNames = 8

// listNames joins the first few of names for a message.
func listNames(names []string) string {
	if len(names) > fewNames {
		names = append(slices.Clip(names[:fewNames]), "…")
	}
	return strings.Join(names, ", ")
}

// mustHold fails for a space in which nothing is, see emptiness.
func mustHold(ctx context.Context, sp *thole.Space) error {
	text, err := emptiness(ctx, sp)
	if text != "" {
		err = fmt.Errorf("%w: %s", thole.ErrNotFound, text)
	}
	return err
}

// emptiness says that nothing is in a space, and in which something is; "": something
// is in it.
func emptiness(ctx context.Context, sp *thole.Space) (string, error) {
	head, err := sp.Head(ctx)
	if err != nil || !head.Last.IsZero() {
		return "", err
	}
	names, err := sp.Store().Spaces(ctx, thole.SpacesQuery{Limit: fewNames + 1})
	switch {
	case err != nil && !errors.As(err, new(*thole.UnreachableError)):
		return "", err
	case len(names) == 0:
		return "nothing is in " + sp.Name() + ", nor in any other space of this store", nil
	}
	return "nothing is in " + sp.Name() + "; there are: " + listNames(names), nil
}

// keyNotFound says what keys of the space begin with.
func keyNotFound(ctx context.Context, sp *thole.Space, key string) error {
	below, err := sp.List(ctx, thole.ListQuery{Prefix: strings.TrimSuffix(key, "/") + "/", Limit: 1})
	if err != nil {
		return err
	}
	if len(below) > 0 {
		return fmt.Errorf("%w: %s in %s is no record; `thole get %s %s/` lists those below it", thole.ErrNotFound, key, sp.Name(), sp.Name(), key)
	}
	var nouns []string
	for q := (thole.ListQuery{Limit: 1}); len(nouns) < 4*fewNames; {
		recs, err := sp.List(ctx, q)
		if err != nil {
			return err
		}
		if len(recs) == 0 {
			break
		}
		noun, _, _ := strings.Cut(recs[0].Key, "/")
		if !ownKey(sp.Store(), recs[0].Key) {
			nouns = append(nouns, noun+"/")
		}
		q.After = endOf(noun)
	}
	return fmt.Errorf("%w: %s in %s; keys there begin with %s", thole.ErrNotFound, key, sp.Name(), strings.Join(nouns, ", "))
}

// streamNotFound names the streams of the newest events.
func streamNotFound(ctx context.Context, sp *thole.Space, stream string) error {
	page, err := sp.Read(ctx, thole.ReadQuery{Backward: true, Limit: thole.MaxPage})
	if err != nil {
		return err
	}
	var names []string
	for _, e := range page.Events {
		if !slices.Contains(names, e.Stream) {
			names = append(names, e.Stream)
		}
	}
	return fmt.Errorf("%w: no event of %s is in stream %q; the newest are in: %s", thole.ErrNotFound, sp.Name(), stream, listNames(names))
}

// checkTypes fails for types that no event has: malformed ones, and unknown ones of a
// concept's. Applications may have any others.
func checkTypes(types []string) error {
	concepts, err := thole.NewConcepts(rest.Concepts()...)
	if err != nil {
		return err
	}
	known := make(map[string][]string) // by noun
	for _, e := range concepts.EventTypes() {
		noun, _, _ := strings.Cut(e.Type, ".")
		known[noun] = append(known[noun], e.Type)
	}
	for _, typ := range types {
		noun, verb, ok := strings.Cut(typ, ".")
		switch {
		case !ok && known[noun] != nil:
			return fmt.Errorf("%w: --types %q is not noun.verb; known are %s.*, %s", thole.ErrInvalid, typ, noun, strings.Join(known[noun], ", "))
		case !ok || noun == "" || verb == "":
			return fmt.Errorf("%w: --types %q is neither noun.verb nor noun.*, such as message.completed or run.*", thole.ErrInvalid, typ)
		case verb != "*" && noun != "app" && known[noun] != nil && !slices.Contains(known[noun], typ):
			return fmt.Errorf("%w: --types %q is not known; known are %s", thole.ErrInvalid, typ, strings.Join(known[noun], ", "))
		}
	}
	return nil
}

// serverURL returns the URL that --server names; http:// may be left out.
func serverURL(server string) (string, error) {
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("%w: --server is the URL of a server, http://HOST:PORT or https://HOST, such as %s", thole.ErrInvalid, defaultURL)
	}
	return strings.TrimSuffix(server, "/"), nil
}
