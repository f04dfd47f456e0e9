package rest_test

import (
	"errors"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
)

func TestOnlyOriginsThatABrowserSendsAreAccepted(t *testing.T) {
	for _, good := range []string{"https://app.example", "http://localhost:5173", "https://app.example:8443", "http://127.0.0.1:3000", "http://[::1]:3000", "https://xn--bcher-kva.example"} {
		if err := rest.CheckOrigin(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "null", "*", "https://*.app.example", "app.example", "https://", "https://app.example/", "https://app.example/x",
		"https://app.example?x", "https://app.example#x", "https://u@app.example", "ftp://app.example", "HTTPS://app.example",
		"https://App.example", "https://app.example:443", "http://app.example:80", "https://app.example:", "https://app.example,https://b.example",
		" https://app.example", "https://bücher.example", "https://app.example:99999x",
	} {
		if err := rest.CheckOrigin(bad); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", bad, err)
		}
	}
}

func TestAPageOfNobodyIsNotTrusted(t *testing.T) {
	s := serve(t, &rest.Options{Origins: []string{"null", "*", "https://app.example"}})
	for _, origin := range []string{"null", "*", "https://evil.example"} {
		r := s.do("POST", "/v1/spaces/project:a/events", map[string]string{"type": "app.x"}, "Origin", origin, "Sec-Fetch-Site", "cross-site")
		if r.status != 403 || r.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("origin %s: got %d, %q", origin, r.status, r.header.Get("Access-Control-Allow-Origin"))
		}
	}
	s.want(201, nil, "POST", "/v1/spaces/project:a/events", map[string]string{"type": "app.x"}, "Origin", "https://app.example", "Sec-Fetch-Site", "cross-site")
}
