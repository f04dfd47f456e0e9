package remote

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answers is a server in this process.
type answers func(r *http.Request) *http.Response

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == Root {
		return answer(200, "application/json", `{"protocol":1,"instance":"inst_1"}`, nil), nil
	}
	return f(r), nil
}

// answer returns a response with the given body, which continues until more ends.
func answer(status int, kind, body string, more context.Context) *http.Response {
	var r io.Reader = strings.NewReader(body)
	if more != nil {
		r = io.MultiReader(r, waiting{more})
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(r)}
}

type waiting struct{ until context.Context }

func (w waiting) Read([]byte) (int, error) {
	<-w.until.Done()
	return 0, w.until.Err()
}

// watched calls Watch on a server until ctx ends and returns its result.
func watched(t *testing.T, ctx context.Context, server answers, wake func(string)) error {
	t.Helper()
	b, err := Open(ctx, "http://server", &Options{Transport: server})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	return b.hints(ctx, wake)
}

func TestAWatchOutlastsWhateverIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		wrong := []*http.Response{
			answer(500, "text/html", "oops", nil),
			answer(404, "text/html", "no such page", nil),
			answer(200, "text/html", "welcome", nil),
			answer(500, "application/problem+json", `{"code":"internal","detail":"panic"}`, nil),
			answer(200, eventStream, "event: wake\ndata: {\n\n", nil),
		}
		woken := ""
		err := watched(t, ctx, func(r *http.Request) *http.Response {
			if len(wrong) == 0 {
				return answer(200, eventStream, ": hello\nevent: wake\ndata: \"user:1\"\n\n", r.Context())
			}
			first := wrong[0]
			wrong = wrong[1:]
			return first
		}, func(space string) { woken = space; stop() })
		if err != nil || woken != "user:1" {
			t.Errorf("watch: got %v, %q hinted at; want user:1", err, woken)
		}
	})
}

func TestAWatchWaitsAsLongAsTheServerSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 9*time.Minute)
		defer stop()
		asked := 0
		err := watched(t, ctx, func(r *http.Request) *http.Response {
			if asked++; asked > 100 {
				stop()
			}
			busy := answer(429, "application/problem+json", `{"code":"rate_limited","detail":"too many"}`, nil)
			busy.Header.Set("Retry-After", "120")
			return busy
		}, func(string) {})
		if err != nil || asked != 5 {
			t.Errorf("in nine minutes: got %d requests, %v; want one every two minutes", asked, err)
		}
	})
}
