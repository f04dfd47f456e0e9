//go:build unix

package failstop_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/thole-dev/thole/internal/failstop"
)

func TestAStoreStopsForTheFirstReason(t *testing.T) {
	kind := errors.New("kind")
	s := failstop.New(kind, "store x")
	if err := s.Err(); err != nil {
		t.Fatalf("before: got %v", err)
	}
	first := s.Because(syscall.EIO)
	for name, err := range map[string]error{"again": s.Because(io.ErrShortWrite), "error": s.Err(), "wait": s.Wait(t.Context(), nil)} {
		if err != first || !errors.Is(err, kind) || !errors.Is(err, syscall.EIO) || !strings.HasPrefix(err.Error(), "kind: store x stopped") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestWaitingForAStopEndsWithTheStore(t *testing.T) {
	s := failstop.New(io.EOF, "store x")
	closed := make(chan struct{})
	close(closed)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.Join(s.Wait(t.Context(), closed), s.Wait(ended, nil)); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}

func TestAFullDiskAndAFullQuotaAreFull(t *testing.T) {
	for err, want := range map[error]bool{syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EIO: false, syscall.EFBIG: false, io.ErrShortWrite: false} {
		if got := failstop.Full(err); got != want {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	}
}
