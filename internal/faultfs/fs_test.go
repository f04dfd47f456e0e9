package faultfs_test

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/thole-dev/thole/internal/faultfs"
)

func write(t *testing.T, f *faultfs.FS, path, text string, sync bool) {
	t.Helper()
	h, err := f.OpenFile(path, os.O_CREATE|os.O_WRONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if _, err := h.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
	if sync {
		if err := h.Sync(); err != nil {
			t.Fatal(err)
		}
	}
}

// content returns a file's content, and whether the file exists.
func content(f *faultfs.FS, path string) (string, bool) {
	h, err := f.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return "", false
	}
	defer h.Close()
	info, err := h.Stat()
	if err != nil {
		return "", false
	}
	b := make([]byte, info.Size())
	h.ReadAt(b, 0)
	return string(b), true
}

func TestACrashKeepsWhatWasSynced(t *testing.T) {
	for seed := range uint64(50) {
		f := faultfs.New(seed)
		f.Mkdir("/d")
		f.SyncDir("/")
		write(t, f, "/d/a", "synced", true)
		f.SyncDir("/d")
		write(t, f, "/d/a", "SYN", false)
		after := f.Crash()
		got, ok := content(after, "/d/a")
		if !ok || got[3:] != "ced" {
			t.Fatalf("seed %d: got %q, %v; want what was synced", seed, got, ok)
		}
		if _, err := f.Stat("/d"); !errors.Is(err, faultfs.ErrCrashed) {
			t.Fatalf("the old file system: got %v, want ErrCrashed", err)
		}
	}
}

func TestACrashMayLoseWhatWasNotSynced(t *testing.T) {
	outcomes := map[string]bool{}
	for seed := range uint64(200) {
		f := faultfs.New(seed)
		write(t, f, "/new", "text", true) // but its name is not durable
		f.SyncDir("/")
		write(t, f, "/old", "old", true)
		f.SyncDir("/")
		write(t, f, "/tmp", "new", true)
		f.Rename("/tmp", "/old")
		after := f.Crash()
		old, _ := content(after, "/old")
		outcomes[old] = true
	}
	if !outcomes["old"] || !outcomes["new"] || len(outcomes) != 2 {
		t.Errorf("a rename that was not synced: got %v, want the old or the new file", outcomes)
	}
	names := map[bool]bool{}
	texts := map[string]bool{}
	for seed := range uint64(200) {
		f := faultfs.New(seed)
		write(t, f, "/a", "abc", false)
		text, ok := content(f.Crash(), "/a")
		names[ok] = true
		texts[text] = true
	}
	if len(names) != 2 || len(texts) < 4 {
		t.Errorf("a file that was not synced: got %v, %v; want any part of it", names, texts)
	}
}

func TestWhatAFailedSyncDroppedALaterOneDoesNotBringBack(t *testing.T) {
	lost := false
	for seed := range uint64(100) {
		f := faultfs.New(seed)
		h, err := f.OpenFile("/a", os.O_CREATE)
		if err != nil {
			t.Fatal(err)
		}
		f.SyncDir("/")
		h.WriteAt([]byte("first"), 0)
		f.Fail(faultfs.Faults{faultfs.SyncError: 1})
		if err := h.Sync(); !errors.Is(err, syscall.EIO) {
			t.Fatalf("sync: got %v, want EIO", err)
		}
		f.Fail(nil)
		if err := h.Sync(); err != nil {
			t.Fatal(err)
		}
		if got, _ := content(f, "/a"); got != "first" {
			t.Fatalf("readers: got %q, want what was written", got)
		}
		got, _ := content(f.Crash(), "/a")
		lost = lost || got == ""
	}
	if !lost {
		t.Error("a failed sync never dropped anything")
	}
}

func TestFaultsAreCounted(t *testing.T) {
	f := faultfs.New(1)
	write(t, f, "/a", "x", true)
	kinds := []faultfs.Kind{faultfs.ShortWrite, faultfs.NoSpace, faultfs.WriteError, faultfs.ReadError}
	for _, k := range kinds {
		h, err := f.OpenFile("/a", os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		f.Fail(faultfs.Faults{k: 1})
		_, rerr := h.ReadAt(make([]byte, 1), 0)
		n, werr := h.WriteAt([]byte("yz"), 0)
		if k == faultfs.ReadError && rerr == nil || k != faultfs.ReadError && (werr == nil || n == 2) {
			t.Errorf("%s: got %v, %v", k, rerr, werr)
		}
		f.Fail(nil)
	}
	for _, k := range kinds {
		if got := f.Counts()[k]; got != 1 {
			t.Errorf("%s: counted %d, want 1", k, got)
		}
	}
}

func TestOneHandleHoldsTheLock(t *testing.T) {
	f := faultfs.New(1)
	a, _ := f.OpenFile("/lock", os.O_CREATE)
	b, _ := f.OpenFile("/lock", os.O_CREATE)
	take := func(h faultfs.File) bool {
		ok, err := h.TryLock()
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	got := []bool{take(a), take(b)}
	a.Close()
	if got = append(got, take(b)); !slices.Equal(got, []bool{true, false, true}) {
		t.Errorf("locked: got %v", got)
	}
}

func TestADirectoryThatWasMovedIsInOnePlaceAfterACrash(t *testing.T) {
	for seed := range uint64(50) {
		f := faultfs.New(seed)
		f.Mkdir("/from")
		f.Mkdir("/to")
		f.SyncDir("/")
		f.Mkdir("/from/d")
		f.Rename("/from/d", "/to/d")
		f.SyncDir("/to")
		after := f.Crash()
		if _, err := after.Stat("/from/d"); err == nil {
			t.Fatalf("seed %d: the directory has its old name, too", seed)
		}
		if _, err := after.Stat("/to/d"); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func TestAKillEndsOneProcessAndFreesItsLocks(t *testing.T) {
	f := faultfs.New(1)
	a, b := f.Process(), f.Process()
	locks := make([]faultfs.File, 2)
	for i, p := range []*faultfs.Process{a, b} {
		h, err := p.OpenFile("/lock", os.O_CREATE|os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		locks[i] = h
	}
	if ok, err := locks[0].TryLock(); !ok || err != nil {
		t.Fatalf("lock: got %v, %v", ok, err)
	}
	if ok, err := locks[1].TryLock(); ok || err != nil {
		t.Fatalf("lock of the other one: got %v, %v", ok, err)
	}
	a.Kill()
	if _, err := locks[0].WriteAt([]byte("x"), 0); !errors.Is(err, faultfs.ErrKilled) {
		t.Errorf("write of the dead one: got %v, want ErrKilled", err)
	}
	if ok, err := locks[1].TryLock(); !ok || err != nil {
		t.Errorf("lock of the other one after the kill: got %v, %v", ok, err)
	}
}
