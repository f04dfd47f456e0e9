package apifuzz_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/internal/apifuzz"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const small = `{"openapi":"3.1.0","paths":{"/v1/spaces/{space}/things":{"post":{
	"parameters":[{"name":"space","in":"path","required":true,"schema":{"type":"string"}}],
	"requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}}}},
	"responses":{"201":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Thing"}}}},
		"400":{"$ref":"#/components/responses/Problem"},"default":{"$ref":"#/components/responses/Problem"}}}}},
	"components":{"schemas":{"Thing":{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}},
		"responses":{"Problem":{"content":{"application/problem+json":{"schema":{"type":"object","required":["code"],"properties":{"code":{"enum":["invalid"]}}}}}}}}}`

// ask runs against a server that always gives the same answer.
func ask(t *testing.T, status int, mediaType, body string) *apifuzz.Report {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi.json" {
			w.Write([]byte(small))
			return
		}
		if mediaType != "" {
			w.Header().Set("Content-Type", mediaType)
		}
		w.WriteHeader(status)
		w.Write([]byte(body))
	}))
	defer server.Close()
	report, err := apifuzz.Run(t.Context(), apifuzz.Config{URL: server.URL, Tokens: []string{"t"}, Seed: 1, Time: 100 * time.Millisecond, Clients: 2})
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return report
}

// A server that accepts everything accepts what its document does not allow.
func TestABodyThatIsAcceptedAgainstItsSchemaIsAFailure(t *testing.T) {
	for i := 0; ; i++ {
		for _, f := range ask(t, 201, "application/json", `{"id":"x"}`).Failures() {
			if strings.Contains(f.What, "a body was accepted") {
				return
			}
		}
		if i == 20 {
			t.Fatal("no body that does not fit was noticed")
		}
	}
}

func TestAnAnswerThatIsNotAsTheDocumentSaysIsAFailure(t *testing.T) {
	const problem = `{"type":"t","title":"t","status":400,"code":"invalid"}`
	for name, c := range map[string]struct {
		status          int
		mediaType, body string
		want            string // "": no failure
	}{
		"as documented":        {201, "application/json", `{"id":"x"}`, "accepted"},
		"a documented problem": {400, "application/problem+json", problem, ""},
		"a server error":       {500, "application/problem+json", problem, "500"},
		"another status":       {202, "application/json", `{"id":"x"}`, "status 202 is not in the document"},
		"another type":         {201, "text/html", `{"id":"x"}`, "content type"},
		"another shape":        {201, "application/json", `{"id":7}`, "does not fit its schema"},
		"no JSON":              {201, "application/json", `{"id":`, "is not JSON"},
		"another error":        {409, "application/problem+json", `{"type":"t","title":"t","status":409,"code":"invalid"}`, "status 409 is not in the document"},
		"a plain error":        {400, "text/plain", "no", "content type"},
		"an unknown code":      {400, "application/problem+json", `{"type":"t","title":"t","status":400,"code":"odd"}`, "does not fit its schema"},
		"another status in it": {400, "application/problem+json", `{"type":"t","title":"t","status":409,"code":"invalid"}`, "not a whole problem"},
	} {
		report := ask(t, c.status, c.mediaType, c.body)
		failures := report.Failures()
		if c.want == "" && len(failures) > 0 {
			t.Errorf("%s: %+v", name, failures[0])
		}
		found := c.want == ""
		for _, f := range failures {
			found = found || strings.Contains(f.What, c.want)
		}
		if !found {
			t.Errorf("%s: failures are %+v, want one with %q", name, failures, c.want)
		}
		if count := report.Counts()[0]; count.Good+count.Refused == 0 && c.status < 500 {
			t.Errorf("%s: nothing was counted: %+v", name, count)
		}
	}
}
