package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// serve is the child process of the SSE and REST cases: it listens on a free
// port, prints its address and the path to watch, and ends with its standard
// input.
func serve(kind, dir string) error {
	mux := http.NewServeMux()
	var path string
	var send func() error // publishes one message; safe for concurrent use
	switch kind {
	case "raw":
		hub := &rawHub{subs: make(map[*rawSub]struct{})}
		path = "/events"
		mux.Handle("GET /events", hub)
		var id atomic.Int64
		send = func() error {
			hub.broadcast(rawFrame(int(id.Add(1)), payload()))
			return nil
		}
	case "thole":
		api, publish, stop, err := tholeServer(dir)
		if err != nil {
			return err
		}
		defer stop()
		path = tholePath
		mux.Handle("/v1/", api)
		send = publish
	default:
		return fmt.Errorf("no server of kind %q", kind)
	}
	mux.HandleFunc("POST /bench/gc", func(http.ResponseWriter, *http.Request) { debug.FreeOSMemory() })
	mux.HandleFunc("POST /bench/publish", func(w http.ResponseWriter, r *http.Request) {
		rate, _ := strconv.Atoi(r.FormValue("rate"))
		length, _ := time.ParseDuration(r.FormValue("for"))
		n, err := publishFor(r.Context(), send, rate, length)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, n)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: mux}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		srv.Close()
	}()
	fmt.Println(l.Addr(), path)
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// publishFor sends for about d: rate messages a second, or, when that is zero,
// as many as 64 senders can.
func publishFor(ctx context.Context, send func() error, rate int, d time.Duration) (int, error) {
	if rate > 0 {
		n := int(d.Seconds() * float64(rate))
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for range n {
			<-tick.C
			if err := send(); err != nil {
				return 0, err
			}
		}
		return n, nil
	}
	end := time.Now().Add(d)
	var n atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				if err := send(); err != nil {
					failed.Store(&err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return int(n.Load()), nil
}
