package sqlitestore

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

func TestNewReadersWaitWhilePoolIsHeld(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "thole.db"), &Options{Readers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	running, err := s.readers.take(t.Context(), s.closed)
	if err != nil {
		t.Fatal(err)
	}
	release := s.readers.hold()
	if _, err := running.integer(`SELECT count(*) FROM space`); err != nil {
		t.Errorf("a reader that runs: got %v", err)
	}
	s.readers.give(running)
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.Heads(short, "user:1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a new reader while the pool is held: got %v, want that it waits", err)
	}
	waited := make(chan error)
	go func() {
		_, err := s.Heads(t.Context(), "user:1")
		waited <- err
	}()
	release()
	if err := <-waited; err != nil {
		t.Errorf("a new reader after the release: got %v", err)
	}
}
