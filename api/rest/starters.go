package rest

import "sync"

// starters counts, for each run, the open connections of the requests that started it:
// the first one and its repeats under the same Idempotency-Key.
type starters struct {
	mu sync.Mutex
	n  map[string]int
}

func (s *starters) enter(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = make(map[string]int)
	}
	s.n[run]++
}

// leave removes a connection and reports whether it was the last one of the run.
func (s *starters) leave(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n[run]--
	last := s.n[run] == 0
	if last {
		delete(s.n, run)
	}
	return last
}
