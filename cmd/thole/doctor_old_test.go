package main_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/internal/servertest"
)

// The stores are those of package state/statetest, which goes on in them.
func TestDoctorFindsNoProblemInStoresOfOldVersions(t *testing.T) {
	stores, err := filepath.Glob("../../state/statetest/testdata/*/sqlite.db.gz")
	if err != nil || len(stores) == 0 {
		t.Fatalf("old stores: got %v, %v", stores, err)
	}
	for _, path := range stores {
		file := filepath.Join(t.TempDir(), "thole.db")
		if err := os.WriteFile(file, gunzip(t, path), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := sqlitestore.Open(t.Context(), file, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := thole.Open(t.Context(), b, &thole.Options{Concepts: rest.Concepts(), Sweep: -1})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // what expired since then, and what ends with that
			if err := s.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if got := servertest.Command(t, t.TempDir(), nil, "doctor", "--store", "sqlite:"+file); got.Code != 0 {
			t.Errorf("%s: got %+v, want no problem", path, got)
		}
	}
}

func gunzip(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
