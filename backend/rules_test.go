package backend_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/backend"
	"github.com/thole-dev/thole/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestARuleIsToldFromADSN(t *testing.T) {
	for store, want := range map[string][2]string{
		"mem:":                               {"", "mem:"},
		"sqlite:a=b.db":                      {"", "sqlite:a=b.db"},
		"sqlite:/tmp/a=b:c.db":               {"", "sqlite:/tmp/a=b:c.db"},
		"postgres://h/db?sslmode=disable":    {"", "postgres://h/db?sslmode=disable"},
		"postgres://h/db?x=file:y":           {"", "postgres://h/db?x=file:y"},
		"*=mem:":                             {"*", "mem:"},
		"user:*=postgres://h/db?a=b":         {"user:*", "postgres://h/db?a=b"},
		"project:shop=sqlite:/tmp/shop=1.db": {"project:shop", "sqlite:/tmp/shop=1.db"},
		"global=https://token@host":          {"global", "https://token@host"},
	} {
		pattern, dsn, rule := backend.CutRule(store)
		if pattern != want[0] || dsn != want[1] || rule != (want[0] != "") {
			t.Errorf("%s: got %q, %q, %v; want %q", store, pattern, dsn, rule, want)
		}
	}
}

func TestSeveralStoresAreOneBackend(t *testing.T) {
	dir := t.TempDir()
	users, others := "sqlite:"+filepath.Join(dir, "users.db"), "sqlite:"+filepath.Join(dir, "others.db")
	b, err := backend.OpenAll(t.Context(), []string{"user:*=" + users, "project:a=" + users, "*=" + others})
	if err != nil {
		t.Fatal(err)
	}
	var batch []journal.Commit
	for _, space := range []string{"user:1", "project:a", "project:b"} {
		batch = append(batch, journal.Commit{Space: space, Writes: []journal.Write{{Key: "k", Value: []byte(`1`)}}})
	}
	if _, err := b.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for dsn, want := range map[string][]string{users: {"project:a", "user:1"}, others: {"project:b"}} {
		one, err := backend.OpenAll(t.Context(), []string{dsn})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := one.Spaces(t.Context(), journal.SpacesQuery{}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: spaces %q, %v; want %q", dsn, got, err, want)
		}
		one.Close()
	}
}

func TestStoresThatCannotBeRoutedAreRefused(t *testing.T) {
	for _, tt := range []struct {
		stores []string
		says   string
	}{
		{[]string{"mem:", "user:*=mem:"}, "PATTERN=DSN"},
		{[]string{"user:*=mem:", "mem:"}, "PATTERN=DSN"},
		{[]string{"user:*=tape:x"}, "none of"},
		{[]string{"*=mem:", "user:*=mem:"}, "too late"},
		{[]string{"users=mem:"}, "is not a space"},
		{nil, "at least one"},
	} {
		if _, err := backend.OpenAll(t.Context(), tt.stores); !errors.Is(err, journal.ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: got %v, want ErrInvalid with %q", tt.stores, err, tt.says)
		}
	}
}
