package rest_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
)

// ask sends a request to the API, without a listener.
func ask(api *rest.API, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost"
	for i := 0; i < len(header); i += 2 {
		r.Header[header[i]] = []string{header[i+1]}
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return w
}

func fuzzedAPI(f *testing.F) *rest.API {
	store, err := thole.Open(f.Context(), memstore.New(), &thole.Options{Concepts: rest.Concepts()})
	if err != nil {
		f.Fatal(err)
	}
	api := rest.New(store, nil)
	f.Cleanup(func() {
		api.Drain()
		store.Close()
	})
	return api
}

// A raw commit is accepted, or refused with a reason; in either case the data can be
// read afterwards.
func FuzzCommitFromOutside(f *testing.F) {
	for _, s := range []string{
		`{"events":[{"type":"app.x","data":{"a":1}}]}`,
		`{"writes":[{"key":"app/x","value":1,"expires_at":"2030-01-01T00:00:00Z","notify":true}],"checks":[{"key":"app/x"}]}`,
		`{"checks":[{"stream":"app/s","at":"0001deadbeef-0000000000000001"}],"events":[{"type":"app.x","stream":"app/s","data":null}]}`,
		`{"writes":[{"key":"app/x"},{"key":"app/x","value":"\u0000"}]}`, `{"events":[]}`, `[]`, `{"writes":[{"key":"token/x","value":1}]}`,
		`{"writes":[{"key":"app/\ud800","value":1e999}]}`,
	} {
		f.Add(s)
	}
	api := fuzzedAPI(f)
	f.Fuzz(func(t *testing.T, body string) {
		w := ask(api, "POST", "/v1/spaces/project:a/commits", body, "Content-Type", "application/json")
		if w.Code != http.StatusCreated && (w.Code < 400 || w.Code >= 500) {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
		if w := ask(api, "GET", "/v1/spaces/project:a/events?limit=10", ""); w.Code >= 500 {
			t.Errorf("after %q: %d %s", body, w.Code, w.Body)
		}
	})
}

// A cursor of an event stream or a page is resumed, or refused as a cursor. A browser
// returns the cursor that it was given, or anything else.
func FuzzCursorFromOutside(f *testing.F) {
	api := fuzzedAPI(f)
	w := ask(api, "POST", "/v1/spaces/project:a/commits", `{"events":[{"type":"app.x"},{"type":"app.y"}]}`, "Content-Type", "application/json")
	if w.Code != http.StatusCreated {
		f.Fatal(w.Body)
	}
	for _, s := range []string{"", "-", "1", "0001deadbeef-0000000000000001", "1cHJvamVjdDphPTAwMDFkZWFkYmVlZi0wMDAwMDAwMDAwMDAwMDAxCg", "1cHJvamVjdDphPQo", "\x00", "ÿ"} {
		f.Add(s)
	}
	api.Drain() // a stream ends as soon as it opens
	f.Fuzz(func(t *testing.T, cursor string) {
		escaped := url.QueryEscape(cursor)
		for _, w := range []*httptest.ResponseRecorder{
			ask(api, "GET", "/v1/spaces/project:a/events?cursor="+escaped, ""),
			ask(api, "GET", "/v1/spaces/project:a/events?after="+escaped, "", "Accept", "text/event-stream"),
			ask(api, "GET", "/v1/spaces/project:a/events", "", "Accept", "text/event-stream", "Last-Event-Id", cursor),
			ask(api, "GET", "/v1/events?watch=project:a,user:b", "", "Accept", "text/event-stream", "Last-Event-Id", cursor),
		} {
			if w.Code != http.StatusOK && w.Code != http.StatusBadRequest && w.Code != http.StatusGone && w.Code != http.StatusServiceUnavailable {
				t.Errorf("%q: %d %s", cursor, w.Code, w.Body)
			}
		}
	})
}
