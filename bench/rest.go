package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/state/thread"
)

// restAppends posts messages over HTTP from n connections that stay open; the
// client shares the machine. With raw, the server answers without doing
// anything: what is left is the price of HTTP.
func restAppends(n int, raw bool) func(context.Context, string, time.Duration) (sample, error) {
	return func(ctx context.Context, dir string, d time.Duration) (sample, error) {
		s, err := openStore(ctx, dir)
		if err != nil {
			return sample{}, err
		}
		defer s.Close()
		ids, err := createThreads(ctx, thread.In(s.Space("project:bench")), threads)
		if err != nil {
			return sample{}, err
		}
		var h http.Handler = rest.New(s, nil)
		if raw {
			h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.WriteHeader(http.StatusCreated)
				w.Write([]byte("{}\n"))
			})
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return sample{}, err
		}
		srv := &http.Server{Handler: h}
		go srv.Serve(l)
		defer srv.Close()
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
		defer client.CloseIdleConnections()
		body := fmt.Appendf(nil, `{"role":"user","blocks":[{"type":"text","content":%q}]}`, strings.Repeat("x", 300))
		base := "http://" + l.Addr().String() + "/v1/spaces/project:bench/threads/"
		return load(ctx, n, d, func(w, i int) error {
			resp, err := client.Post(base+ids[(w*7919+i)%threads]+"/messages", "application/json", bytes.NewReader(body))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err == nil && resp.StatusCode != http.StatusCreated {
				err = fmt.Errorf("%s: %.300s", resp.Status, text)
			}
			return err
		})
	}
}
