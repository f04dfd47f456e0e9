package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/journal"
)

// counted counts the records and bytes that a server reads at once.
type counted struct {
	journal.Backend
	most int // bytes of one read
}

func (b *counted) Get(ctx context.Context, space string, keys ...string) ([]journal.Record, error) {
	all, err := b.Backend.Get(ctx, space, keys...)
	b.count(all)
	return all, err
}

func (b *counted) List(ctx context.Context, space string, q journal.ListQuery) ([]journal.Record, error) {
	all, err := b.Backend.List(ctx, space, q)
	b.count(all)
	return all, err
}

func (b *counted) Read(ctx context.Context, space string, q journal.ReadQuery) (journal.Page, error) {
	p, err := b.Backend.Read(ctx, space, q)
	n := 0
	for _, e := range p.Events {
		n += len(e.Data)
	}
	b.most = max(b.most, n)
	return p, err
}

func (b *counted) count(all []journal.Record) {
	n := 0
	for _, r := range all {
		n += len(r.Value)
	}
	b.most = max(b.most, n)
}

// big fills user:1 with n records app/000… and as many events of the largest size.
func big(t *testing.T, b journal.Backend, n int) (keys []string) {
	t.Helper()
	value := json.RawMessage(`"` + strings.Repeat("x", journal.MaxValueBytes-2) + `"`)
	for i := range n {
		c := oneEvent
		c.Events = []journal.Event{{Stream: "s", Type: "a.b", Data: value}}
		c.Writes = []journal.Write{{Key: fmt.Sprintf("app/%03d", i), Value: value}}
		if _, err := b.Commit(t.Context(), []journal.Commit{c}); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, c.Writes[0].Key)
	}
	return keys
}

func TestAShortRequestMakesNoServerReadMuch(t *testing.T) {
	effort.SlowUnderRace(t)
	const most = 16 << 20
	b := &counted{Backend: memstore.New()}
	s := serve(t, b)
	keys := big(t, b, 80)
	one := slices.Repeat(keys[:1], 300)
	for _, tt := range []struct {
		path   string
		req    remote.Request
		status int
	}{
		{"/get", remote.Request{Space: "user:1", Names: one}, http.StatusRequestEntityTooLarge},
		{"/get", remote.Request{Space: "user:1", Names: slices.Repeat([]string{"x"}, 800_000)}, http.StatusRequestEntityTooLarge},
		{"/heads", remote.Request{Names: slices.Repeat([]string{"user:1"}, 800_000)}, http.StatusRequestEntityTooLarge},
		{"/list", remote.Request{Space: "user:1", List: journal.ListQuery{Limit: -1}}, http.StatusRequestEntityTooLarge},
		{"/list", remote.Request{Space: "user:1", List: journal.ListQuery{Limit: 1_000_000_000}}, http.StatusRequestEntityTooLarge},
		{"/read", remote.Request{Space: "user:1", Read: journal.ReadQuery{Limit: 1_000_000_000}}, http.StatusOK},
		{"/read", remote.Request{Space: "user:1", Read: journal.ReadQuery{Limit: -1, Backward: true}}, http.StatusOK},
		{"/spaces", remote.Request{Spaces: journal.SpacesQuery{Limit: -1}}, http.StatusOK},
	} {
		b.most = 0
		body, err := tt.req.Encode()
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.Post(s.URL+remote.Root+tt.path, remote.MediaType, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != tt.status || b.most > most || n > most+1<<20 {
			t.Errorf("%s %.60s…: status %d, %d bytes read at once, %d answered, %v; want %d and at most %d",
				tt.path, body, r.StatusCode, b.most, n, err, tt.status, most)
		}
	}
}

func TestAClientGetsMoreThanOneAnswerHolds(t *testing.T) {
	effort.SlowUnderRace(t)
	b := memstore.New()
	client := dial(t, serve(t, b).URL, nil)
	const n = 80
	keys := big(t, b, n)
	asked := slices.Repeat(keys, 4)[:journal.MaxCommitItems]
	if recs, err := client.Get(t.Context(), "user:1", asked...); err != nil || len(recs) != len(asked) || recs[255].Key != asked[255] {
		t.Errorf("get: %d records, %v; want %d", len(recs), err, len(asked))
	}
	recs, err := client.List(t.Context(), "user:1", journal.ListQuery{Prefix: "app/"})
	if err != nil || len(recs) != n || recs[n-1].Key != keys[n-1] {
		t.Errorf("list: %d records, %v; want %d", len(recs), err, n)
	}
	if recs, err := client.List(t.Context(), "user:1", journal.ListQuery{Limit: 70}); err != nil || len(recs) != 70 {
		t.Errorf("list: %d records, %v; want 70", len(recs), err)
	}
	seen := 0
	for q := (journal.ReadQuery{}); ; {
		p, err := client.Read(t.Context(), "user:1", q)
		if err != nil {
			t.Fatal(err)
		}
		seen += len(p.Events)
		if q.After = p.Next; p.Next.IsZero() {
			break
		}
	}
	if seen != n {
		t.Errorf("read: %d events, want %d", seen, n)
	}
	names := make([]string, 2*journal.MaxPage+1)
	for i := range names {
		names[i] = fmt.Sprintf("user:%d", i)
	}
	if heads, err := client.Heads(t.Context(), names...); err != nil || len(heads) != len(names) || heads[1].Last.Seq != n {
		t.Errorf("heads: %d, %v; want %d", len(heads), err, len(names))
	}
	if recs, err := client.Get(t.Context(), "user:1", names...); err != nil || len(recs) != len(names) {
		t.Errorf("get: %d records, %v; want %d", len(recs), err, len(names))
	}
}
