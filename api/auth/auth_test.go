package auth_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal/problem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, now func() time.Time) *thole.Store {
	t.Helper()
	s, err := thole.Open(t.Context(), memstore.New(), &thole.Options{Concepts: []*thole.Concept{auth.Concept}, Now: now, Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestATokenIsAcceptedUntilItIsRevoked(t *testing.T) {
	store := open(t, nil)
	secret, tok, err := auth.Create(t.Context(), store, auth.Token{
		Name: "ci", Actor: "user:42", Grants: []auth.Grant{{Space: "project:*", Access: auth.Write}},
	})
	if err != nil {
		t.Fatal(err)
	}
	check := auth.NewTokens(store)
	got, err := check.Authenticate(t.Context(), secret)
	if err != nil || got.Actor != "user:42" {
		t.Fatalf("Authenticate = %+v, %v", got, err)
	}
	listed, err := auth.List(t.Context(), store, "", 0)
	if err != nil || len(listed) != 1 || listed[0].ID != tok.ID {
		t.Fatalf("List = %+v, %v", listed, err)
	}
	if err := auth.Revoke(t.Context(), store, tok.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := check.Authenticate(t.Context(), secret); !errors.Is(err, problem.ErrUnauthorized) {
		t.Errorf("after Revoke: %v, want ErrUnauthorized", err)
	}
	if err := auth.Revoke(t.Context(), store, tok.ID); !errors.Is(err, thole.ErrNotFound) {
		t.Errorf("second Revoke: %v, want ErrNotFound", err)
	}
}

func TestATokenThatWouldHaveExpiredIsNotMade(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	store := open(t, func() time.Time { return now })
	for _, expires := range []time.Time{now, now.Add(-time.Hour), time.Unix(0, 0)} {
		_, _, err := auth.Create(t.Context(), store, auth.Token{Grants: []auth.Grant{{Space: "*", Access: auth.Read}}, Expires: expires})
		if !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("expires %v: got %v, want ErrInvalid", expires, err)
		}
	}
}

func TestTheSecretIsNotInTheStore(t *testing.T) {
	store := open(t, nil)
	secret, _, err := auth.Create(t.Context(), store, auth.Token{Grants: []auth.Grant{{Space: "*", Access: auth.Admin}}})
	if err != nil {
		t.Fatal(err)
	}
	_, random, _ := strings.Cut(secret, ".")
	global := store.Space("global")
	for rec, err := range global.Records(t.Context(), "") {
		if err != nil || strings.Contains(string(rec.Value), random) {
			t.Errorf("record %s holds the secret (or %v)", rec.Key, err)
		}
	}
	for e, err := range global.Events(t.Context(), thole.ReadQuery{}) {
		if err != nil || strings.Contains(string(e.Data), random) || strings.Contains(string(e.Data), "hash") {
			t.Errorf("event %s holds the secret or its hash (or %v)", e.Type, err)
		}
	}
}

func TestAnExpiredTokenIsRefused(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	store := open(t, func() time.Time { return now })
	secret, _, err := auth.Create(t.Context(), store, auth.Token{
		Grants: []auth.Grant{{Space: "*", Access: auth.Read}}, Expires: now.Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	check := auth.NewTokens(store)
	if _, err := check.Authenticate(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	if _, err := check.Authenticate(t.Context(), secret); !errors.Is(err, problem.ErrUnauthorized) {
		t.Errorf("after an hour: %v, want ErrUnauthorized", err)
	}
}

func TestWrongSecretsAreUnauthorized(t *testing.T) {
	store := open(t, nil)
	secret, tok, err := auth.Create(t.Context(), store, auth.Token{Grants: []auth.Grant{{Space: "*", Access: auth.Read}}})
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Repeat("A", len(secret)-len(tok.ID)-1)
	for _, bad := range []string{"", ".", "x", tok.ID, tok.ID + ".", tok.ID + "." + other, secret + "A", "tok_../x." + other, "tok_00000000000000000000000000000000." + other} {
		if _, err := auth.NewTokens(store).Authenticate(t.Context(), bad); !errors.Is(err, problem.ErrUnauthorized) {
			t.Errorf("%q: %v, want ErrUnauthorized", bad, err)
		}
	}
}

func TestGrantsGiveWhatTheySayAndNoMore(t *testing.T) {
	const a, b = "thrd_000000000000000000000000000000aa", "thrd_000000000000000000000000000000bb"
	grants := []auth.Grant{
		{Space: "project:*", Access: auth.Read},
		{Space: "project:shop", Access: auth.Write, Threads: []string{a}},
		{Space: "project:shop", Access: auth.Write, Threads: []string{b}},
		{Space: "user:42", Access: auth.Admin},
	}
	tests := []struct {
		space   string
		need    auth.Access
		ok      bool
		threads int
	}{
		{"project:shop", auth.Read, true, 0},
		{"project:shop", auth.Write, true, 2},
		{"project:shop", auth.Admin, false, 0},
		{"project:other", auth.Read, true, 0},
		{"project:other", auth.Write, false, 0},
		{"projects:x", auth.Read, false, 0},
		{"user:42", auth.Write, true, 0},
		{"user:421", auth.Read, false, 0},
		{"global", auth.Read, false, 0},
	}
	for _, tt := range tests {
		scope, ok := auth.Allows(grants, tt.space, tt.need)
		if ok != tt.ok || ok && len(scope.Threads) != tt.threads {
			t.Errorf("Allows(%s, %s) = %+v, %v; want %v with %d threads", tt.space, tt.need, scope, ok, tt.ok, tt.threads)
		}
	}
	old := []auth.Grant{{Space: "project:*", Access: auth.Admin}, {Space: "project:a,b", Access: auth.Admin}}
	for _, space := range []string{"project:*", "project:a,b"} { // an earlier version allowed them
		if _, ok := auth.Allows(old, space, auth.Read); ok {
			t.Errorf("%s is shown to callers without a grant on all spaces", space)
		}
		if _, ok := auth.Allows([]auth.Grant{{Space: "*", Access: auth.Admin}}, space, auth.Admin); !ok {
			t.Errorf("%s is hidden from callers with a grant on all spaces", space)
		}
	}
	for _, bad := range []auth.Grant{
		{Space: " project:a", Access: auth.Read}, {Space: "PROJECT:a", Access: auth.Read}, {Space: "project:a,b", Access: auth.Read},
		{}, {Space: "project:x", Access: "root"}, {Space: "pro*", Access: auth.Read}, {Space: "*:*", Access: auth.Read},
		{Space: "project:a*", Access: auth.Read}, {Space: "project:a", Access: auth.Admin, Threads: []string{a}},
		{Space: "project:a", Access: auth.Read, Threads: []string{"thrd_/x"}},
	} {
		if err := bad.Check(); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", bad, err)
		}
	}
}
