package main

import (
	"fmt"
	"net/http"
	"sync"
)

// rawHub is the baseline of SSE fan-out: what one would write with net/http
// when speed is all that counts. A frame is encoded once; whatever is queued
// for a subscriber leaves in one write and one flush. There is no history, no
// filter, no authentication.
type rawHub struct {
	mu   sync.Mutex
	subs map[*rawSub]struct{}
}

type rawSub struct {
	mu    sync.Mutex
	queue [][]byte
	wake  chan struct{}
}

func (h *rawHub) broadcast(frame []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		s.mu.Lock()
		s.queue = append(s.queue, frame)
		s.mu.Unlock()
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

func (h *rawHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := &rawSub{wake: make(chan struct{}, 1)}
	h.mu.Lock()
	h.subs[s] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.subs, s)
		h.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	fmt.Fprint(w, "retry: 1000\n\n")
	flush.Flush()
	var frames [][]byte
	var buf []byte
	for {
		select {
		case <-r.Context().Done():
			return
		case <-s.wake:
		}
		s.mu.Lock()
		frames, s.queue = s.queue, frames[:0]
		s.mu.Unlock()
		buf = buf[:0]
		for _, f := range frames {
			buf = append(buf, f...)
		}
		if _, err := w.Write(buf); err != nil {
			return
		}
		flush.Flush()
	}
}

// rawFrame is an SSE frame with an id and about 300 bytes of data.
func rawFrame(id int, payload []byte) []byte {
	return fmt.Appendf(nil, "id: %d\nevent: bench.tick\ndata: %s\n\n", id, payload)
}
