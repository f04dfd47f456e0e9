package rest_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/internal/effort"
)

func TestABlobIsStoredUnderItsHashOnly(t *testing.T) {
	s := serve(t, nil)
	content := strings.Repeat("0123456789", 600_000) // more than a JSON body may have
	sum := sha256.Sum256([]byte(content))
	path := "/v1/spaces/project:a/blobs/" + hex.EncodeToString(sum[:])
	s.refuse(404, "not_found", "GET", path, nil)
	s.want(200, nil, "PUT", path, content)
	s.want(200, nil, "PUT", path, content)
	r := s.want(200, nil, "GET", path, nil)
	if string(r.body) != content {
		t.Errorf("got %d bytes, want the %d that were put", len(r.body), len(content))
	}
	if got := r.header.Get("Content-Disposition"); got != "attachment" {
		t.Errorf("Content-Disposition = %q: a browser could take it for a page", got)
	}
	if r := s.do("GET", path, nil, "Range", "bytes=5-9"); r.status != 206 || string(r.body) != "56789" {
		t.Errorf("a range gives %d %q", r.status, r.body)
	}
	if r := s.do("GET", path, nil, "If-None-Match", r.header.Get("ETag")); r.status != 304 {
		t.Errorf("If-None-Match gives %d, want 304", r.status)
	}
	p := s.refuse(400, "invalid", "PUT", path, content+"x")
	if p.Field != "sha256" {
		t.Errorf("field = %q, want sha256", p.Field)
	}
	other := sha256.Sum256([]byte(content + "x"))
	s.refuse(404, "not_found", "GET", "/v1/spaces/project:a/blobs/"+hex.EncodeToString(other[:]), nil)
	s.refuse(400, "invalid", "PUT", "/v1/spaces/project:a/blobs/x", content)
	s.refuse(400, "invalid", "GET", "/v1/spaces/project:a/blobs/..%2Fx", nil)
}

func TestARangeThatABlobDoesNotHaveIsAProblem(t *testing.T) {
	s := serve(t, nil)
	const path = "/v1/spaces/project:a/blobs/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of abc
	s.want(200, nil, "PUT", path, "abc")
	s.refuse(416, "invalid", "GET", path, nil, "Range", "bytes=5-9")
	s.refuse(400, "invalid", "GET", path, nil, "If-Match", `"x"`)
	if r := s.want(206, nil, "GET", path, nil, "Range", "bytes=1-1"); string(r.body) != "b" {
		t.Errorf("bytes=1-1 is %q", r.body)
	}
}

// vanishing is a backend in which, once it is on, a space is deleted before a chunk is read.
type vanishing struct {
	*memstore.Store
	on bool
}

func (b *vanishing) Get(ctx context.Context, space string, keys ...string) ([]thole.Record, error) {
	if b.on && strings.HasPrefix(keys[0], "chunk/") {
		b.on = false
		if err := b.Purge(ctx, space, thole.Purge{All: true}); err != nil {
			return nil, err
		}
	}
	return b.Store.Get(ctx, space, keys...)
}

func TestABlobThatIsDeletedAsItIsReadIsNotFound(t *testing.T) {
	b := &vanishing{Store: memstore.New()}
	store, err := thole.Open(t.Context(), b, &thole.Options{Concepts: rest.Concepts()})
	if err != nil {
		t.Fatal(err)
	}
	s := serveStore(t, store, nil)
	const path = "/v1/spaces/project:a/blobs/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of abc
	for _, headers := range [][]string{nil, {"Range", "bytes=-2"}} {
		s.want(200, nil, "PUT", path, "abc")
		b.on = true
		r := s.do("GET", path, nil, headers...)
		if r.status != 404 || r.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v: got %d %s %s", headers, r.status, r.header.Get("Content-Type"), r.body)
		}
		for _, name := range []string{"ETag", "Content-Range", "Content-Disposition"} {
			if got := r.header.Get(name); got != "" {
				t.Errorf("%v: the answer has %s %q", headers, name, got)
			}
		}
	}
}

func TestNothingIsKeptOfABlobThatWasRefused(t *testing.T) {
	effort.SlowUnderRace(t)
	s := serve(t, nil)
	path := "/v1/spaces/project:a/blobs/" + strings.Repeat("0", 64)
	content := make([]byte, 5<<20)
	rand.NewChaCha8([32]byte{}).Read(content)
	for range 3 {
		s.refuse(400, "invalid", "PUT", path, string(content))
	}
	for rec, err := range s.store.Space("project:a").Records(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(rec.Key, "idem/") {
			t.Errorf("%s is left", rec.Key)
		}
	}
}
