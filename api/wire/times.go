package wire

import (
	"time"

	"github.com/thole-dev/thole/backend/remote"
)

// clamp keeps the times that an admin of some spaces gives from lying beyond the
// server's own: a time in the store moves the clock of all spaces, see decision
// 0004. Earlier ones stay: the commit that ends an expired record carries the last
// moment of the record's life, and what is imported keeps its past.
func (s *Server) clamp(r *remote.Request) {
	now := s.store.Now()
	until := func(t *time.Time) {
		if t.After(now) {
			*t = now
		}
	}
	for i := range r.Batch {
		until(&r.Batch[i].Now)
	}
	for i := range r.Chunk.Events {
		until(&r.Chunk.Events[i].Time)
	}
	for i := range r.Chunk.Records {
		until(&r.Chunk.Records[i].Updated)
	}
}
