package main

import (
	"context"
	"net"
	"net/http"
	"path/filepath"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend"
)

// engine opens a fresh store as a program would, and returns what closes it and
// removes what it left outside of dir.
type engine func(ctx context.Context, dir string) (*thole.Store, func(), error)

// sqlite is a file in dir.
func sqlite(ctx context.Context, dir string) (*thole.Store, func(), error) {
	return openDSN(ctx, "sqlite:"+filepath.Join(dir, "thole.db"), func() {})
}

// memory keeps nothing: what an append costs is what the library costs.
func memory(ctx context.Context, _ string) (*thole.Store, func(), error) {
	return openDSN(ctx, "mem:", func() {})
}

// files is a folder in dir.
func files(ctx context.Context, dir string) (*thole.Store, func(), error) {
	return openDSN(ctx, "file:"+filepath.Join(dir, "thole"), func() {})
}

// postgres is a database of its own.
func postgres(ctx context.Context, _ string) (*thole.Store, func(), error) {
	dsn, drop, err := database(ctx)
	if err != nil {
		return nil, nil, err
	}
	return openDSN(ctx, dsn, drop)
}

func openDSN(ctx context.Context, dsn string, after func()) (*thole.Store, func(), error) {
	s, err := openWith(ctx, dsn, nil)
	if err != nil {
		after()
		return nil, nil, err
	}
	return s, func() { s.Close(); after() }, nil
}

func openWith(ctx context.Context, dsn string, opts *thole.Options) (*thole.Store, error) {
	b, err := backend.Open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	var o thole.Options
	if opts != nil {
		o = *opts
	}
	o.Concepts = rest.Concepts()
	return thole.Open(ctx, b, &o)
}

// through is a store on a server of e, which shares the machine.
func through(e engine) engine {
	return func(ctx context.Context, dir string) (*thole.Store, func(), error) {
		behind, stop, err := e(ctx, dir)
		if err != nil {
			return nil, nil, err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			stop()
			return nil, nil, err
		}
		srv := &http.Server{Handler: rest.New(behind, nil)}
		go srv.Serve(l)
		return openDSN(ctx, "http://"+l.Addr().String(), func() { srv.Close(); stop() })
	}
}
