//go:build linux

package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/thole-dev/thole/internal/servertest"
)

// smallDisk mounts an empty file system of a few megabytes. It needs root, as in CI;
// otherwise the test fails, because it would prove nothing.
func smallDisk(t *testing.T, megabytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes)); err != nil {
		t.Fatalf("mount a small disk (this takes root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// The disk fills up under a running server, twice. Reads go on, and everything
// acknowledged is there afterwards.
func TestAFullDiskRefusesWritesUntilThereIsSpace(t *testing.T) {
	servertest.Faults(t)
	disk := smallDisk(t, 16)
	s := servertest.Start(t, servertest.Setup{Store: "sqlite:" + filepath.Join(disk, "thole.db")})
	ballast := filepath.Join(disk, "ballast")
	const ns = "/v1/spaces/project:full/kv/ns/"
	value := strings.Repeat("0123456789abcdef", 4000)
	var kept []string
	for round := range 2 {
		if err := os.WriteFile(ballast, make([]byte, 4<<20), 0o644); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		refused := 0
		for n := 0; refused < 20; n++ {
			key := fmt.Sprintf("%d-%d", round, n)
			r, err := s.Do(t.Context(), "PUT", ns+key, map[string]any{"data": value + key})
			switch {
			case err != nil:
				t.Fatal(err)
			case r.Status == 200:
				kept = append(kept, key)
			default:
				mustBeProblem(t, r, 507, "full")
				refused++
			}
			if n > 1000 {
				t.Fatal("the disk never filled up")
			}
		}
		for _, key := range kept { // reads go on
			s.Must("GET", ns+key, nil, nil)
		}
		s.Must("GET", "/readyz", nil, nil)
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		s.Must("PUT", ns+"after", map[string]any{"data": round}, nil)
	}
	t.Logf("%d values of %d bytes were acknowledged, 40 refused", len(kept), len(value))
	s.Kill()
	s.Start()
	for _, key := range kept {
		if got := s.Must("GET", ns+key, nil, nil).Body; !bytes.Contains(got, []byte(value+key)) {
			t.Errorf("%s was acknowledged and is gone: %.200s", key, got)
		}
	}
	var page struct{ Items []any }
	s.Must("GET", "/v1/spaces/project:full/kv/ns?limit=1000", nil, &page)
	if got, want := len(page.Items), len(kept)+1; got != want {
		t.Errorf("values: got %d, want %d; a refused one exists", got, want)
	}
	s.Terminate()
	servertest.MustBeHealthy(t, s.Store)
}

// The disk has no free byte.
func TestAServerDoesNotStartOnAFullDisk(t *testing.T) {
	servertest.Faults(t)
	disk := smallDisk(t, 1)
	if err := os.WriteFile(filepath.Join(disk, "ballast"), make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	servertest.MustFail(t, t.TempDir(), nil, []string{"serve", "--listen", "127.0.0.1:0", "--store", "sqlite:" + filepath.Join(disk, "thole.db")}, "thole.db", "full")
}

// The store is on a read-only mount, because chmod does not stop root.
func TestAReadOnlyDiskSaysSo(t *testing.T) {
	servertest.Faults(t)
	disk := smallDisk(t, 16)
	store := filepath.Join(disk, "thole.db")
	if err := os.WriteFile(store, oldStore(t), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatalf("remount read-only: %v", err)
	}
	for _, path := range []string{"thole.db", "new.db", "new/thole.db"} {
		args := []string{"dev", "--listen", "127.0.0.1:0", "--dir", ".", "--store", "sqlite:" + filepath.Join(disk, path)}
		servertest.MustFail(t, t.TempDir(), nil, args, path, "read-only")
	}
	servertest.MustFail(t, t.TempDir(), nil, []string{"doctor", "--store", "sqlite:" + store}, "thole.db", "read-only")
}
