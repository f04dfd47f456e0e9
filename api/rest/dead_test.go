package rest_test

import (
	"context"
	"slices"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/router"
	"github.com/thole-dev/thole/journal"
)

// /readyz and the list of spaces name the dead one of several stores; the process stays
// ready unless that store has the tokens.
func TestADeadStoreOfSeveralIsNamed(t *testing.T) {
	for _, global := range []bool{false, true} {
		dead := router.Later(thole.ErrUnavailable, func(context.Context) (journal.Backend, error) { return nil, thole.ErrUnavailable })
		rules := []router.Rule{{Pattern: "project:*", Backend: memstore.New()}, {Pattern: "user:*", Backend: dead}}
		if global {
			slices.Reverse(rules)
		}
		b, err := router.New(rules...)
		if err != nil {
			t.Fatal(err)
		}
		st, err := thole.Open(t.Context(), b, &thole.Options{Concepts: rest.Concepts(), Sweep: -1})
		if err != nil {
			t.Fatal(err)
		}
		s := serveStore(t, st, nil)
		s.want(201, nil, "POST", "/v1/spaces/project:a/events", `{"type":"a.b"}`)
		var ready struct {
			Status      string
			Unreachable []string
		}
		s.want(map[bool]int{false: 200, true: 503}[global], &ready, "GET", "/readyz", nil)
		if !slices.Equal(ready.Unreachable, []string{"user:*"}) {
			t.Errorf("readyz: got %+v, want user:* as unreachable", ready)
		}
		var spaces struct{ Items []rest.Space }
		r := s.want(200, &spaces, "GET", "/v1/spaces", nil)
		if len(spaces.Items) != 1 || spaces.Items[0].Name != "project:a" || r.header.Get("Thole-Unreachable") != "user:*" {
			t.Errorf("spaces: got %+v and %q, want project:a, and user:* as unreachable", spaces.Items, r.header.Get("Thole-Unreachable"))
		}
		s.refuse(503, "unavailable", "POST", "/v1/spaces/user:1/events", `{"type":"a.b"}`)
	}
}
