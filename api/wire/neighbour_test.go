package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/backend/router"
	"github.com/thole-dev/thole/journal"
)

// withoutUsers serves a store that refuses the spaces of users.
func withoutUsers(t *testing.T) *server {
	t.Helper()
	b, err := router.New(router.Rule{Pattern: "project:*", Backend: memstore.New()}, router.Rule{Pattern: "org:*", Backend: memstore.New()})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, b)
}

func TestACommitThatAServerCannotPlaceFailsNoNeighbour(t *testing.T) {
	s := withoutUsers(t)
	malformed := commitTo("project:a")
	malformed.Events[0].Stream = strings.Repeat("x", journal.MaxNameBytes+1)
	nameless := commitTo("org:b")
	nameless.Actor = "\xff"
	batch := []journal.Commit{commitTo("user:42"), commitTo("org:b"), malformed, commitTo("project:a"), nameless, commitTo("org:b")}
	results, err := dial(t, s.URL, nil).Commit(t.Context(), batch)
	if err != nil {
		t.Fatalf("got %v, want a result for each commit", err)
	}
	for i, bad := range []bool{true, false, true, false, true, false} {
		refused := errors.Is(results[i].Err, journal.ErrInvalid) || errors.Is(results[i].Err, journal.ErrTooLarge)
		if refused != bad || bad != results[i].Last.IsZero() {
			t.Errorf("commit %d to %s: got %v, %v; want it refused: %v", i, batch[i].Space, results[i].Last, results[i].Err, bad)
		}
	}
}

// An older client takes a partly failed answer for success, and an error without the
// header for proof that nothing was applied.
func TestABatchOfWhichSomeWasAppliedIsToldAsUnknown(t *testing.T) {
	s := withoutUsers(t)
	var hello remote.Hello
	res, err := http.Get(s.URL + remote.Root)
	if err == nil {
		err = json.NewDecoder(res.Body).Decode(&hello)
		res.Body.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for n, tt := range []struct {
		spaces  []string
		unknown bool
	}{{[]string{"org:b", "user:42"}, true}, {[]string{"user:42", "project:a"}, true}, {[]string{"nothing", "nobody"}, false}} {
		var batch []journal.Commit
		for _, space := range tt.spaces {
			batch = append(batch, commitTo(space))
		}
		body, err := (&remote.Request{Batch: batch}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+remote.Root+"/commit", strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(remote.HeaderInstance, hello.Instance)
		r.Header.Set(remote.HeaderChange, fmt.Sprintf("client %d 1", n+1))
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := res.Header.Get(remote.HeaderOutcome); res.StatusCode < 400 || (got == remote.Unknown) != tt.unknown {
			t.Errorf("commits to %q: status %d, outcome %q; want it unknown: %v", tt.spaces, res.StatusCode, got, tt.unknown)
		}
	}
	for _, space := range []string{"org:b", "project:a"} {
		if head, err := s.store.Space(space).Head(t.Context()); err != nil || head.Last.Seq != 1 {
			t.Errorf("%s: head %v, %v; want its commit", space, head.Last, err)
		}
	}
}
