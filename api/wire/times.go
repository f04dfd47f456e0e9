package wire

import (
	"time"

	"github.com/thole-dev/thole/backend/remote"
)

// clamp sets times that lie ahead of the server's clock to its time: an admin of some
// spaces cannot date anything ahead of the server (see decision 0004). Earlier times
// stay: the commit that ends an expired record carries the last moment of the
// record's life, and an import keeps its past.
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
