package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/internal/effort"
)

// The curl command of each operation is one that a shell can run, and the operation
// accepts it once the ids are those of things that exist.
func TestTheCurlCommandOfEveryOperationIsAccepted(t *testing.T) {
	effort.SlowUnderRace(t)
	doc, err := openapi3.NewLoader().LoadFromData(serve(t, nil).want(200, nil, "GET", "/openapi.json", nil).body)
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if strings.HasPrefix(path, "/v1/backend/") {
				continue // FILE would be a message of package remote, or the answer never ends
			}
			t.Run(op.OperationID, func(t *testing.T) {
				sample := op.Extensions["x-codeSamples"].([]any)[0].(map[string]any)["source"].(string)
				s := serveWithTokens(t, nil).as("user:42", auth.Grant{Space: "*", Access: auth.Admin})
				shop := s.openShop(method, path)
				status, answer := s.runCurl(shop.replace(sample), shop.token)
				if op.Responses.Status(status) == nil || status >= 300 || strings.Contains(sample, "…") {
					t.Errorf("%s\ngot %d %s; what it needs is made in openShop", sample, status, answer)
				}
			})
		}
	}
}

// shop has what the samples refer to by its example id.
type shop struct {
	ids   map[string]string // by the kind of their example: thrd, run, …
	token string            // of the lease that $TOKEN stands for
}

const exampleID = "_019f3a5e0c7d7b4e9a51c7e2f0a4b8d6"

// replace replaces the example ids of a sample.
func (s shop) replace(sample string) string {
	for kind, id := range s.ids {
		sample = strings.ReplaceAll(sample, kind+exampleID, id)
	}
	return sample
}

// openShop fills project:shop for a request of the operation.
func (s *server) openShop(method, path string) shop {
	s.t.Helper()
	const space = "/v1/spaces/project:shop"
	id := func(method, path, body string) string {
		var made struct{ ID string }
		s.want(201, &made, method, path, body)
		return made.ID
	}
	thread := id("POST", space+"/threads", `{}`)
	at := space + "/threads/" + thread
	out := shop{ids: map[string]string{"thrd": thread}}
	out.ids["turn"] = id("POST", at+"/turns", `{"request":[{"type":"text","content":"Hi"}],"response":[{"type":"text","content":"Hello"}]}`)
	out.ids["todo"] = id("POST", at+"/todos", `{"content":"Write the tests"}`)
	out.ids["dec"] = id("POST", space+"/decisions", `{"action":"write src/app.ts"}`)
	s.want(200, nil, "PUT", at+"/state", `{"value":{}}`)
	s.want(200, nil, "PUT", space+"/documents/settings", `{"value":{}}`)
	if method == "GET" {
		s.want(201, nil, "POST", space+"/files/src/app.ts", map[string]string{"after_hash": blobSample})
		s.want(200, nil, "PUT", space+"/blobs/"+blobSample, "hello")
	}
	if strings.HasSuffix(path, "/locks/{name}") {
		var lock struct{ Token string }
		s.want(201, &lock, "POST", space+"/locks", `{"name":"src/app.ts"}`)
		out.token = lock.Token
	}
	out.ids["run"] = id("POST", at+"/runs", `{"prompt":"Hi"}`)
	if !strings.Contains(path, "/runs/{run}") && !strings.Contains(path, "/blocks") {
		return out // the run stays in the queue
	}
	var claim struct{ Turn, Token string }
	s.want(200, &claim, "POST", "/v1/runs/claim", `{"spaces":["project:shop"]}`)
	out.ids["turn"], out.token = claim.Turn, claim.Token
	var block struct{ ID string }
	s.want(201, &block, "POST", at+"/turns/"+claim.Turn+"/blocks", `{"type":"tool","tool":{"name":"Write"}}`, "Thole-Fence", claim.Token)
	out.ids["blk"] = block.ID
	s.want(204, nil, "POST", at+"/runs/"+out.ids["run"]+"/signals", `{"name":"approval"}`)
	return out
}

const blobSample = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of hello

// runCurl has a shell read a curl command, and sends the request of which it speaks.
// FILE holds "hello". It returns the status, and the answer unless that is a stream.
func (s *server) runCurl(command, token string) (int, string) {
	s.t.Helper()
	shell := exec.CommandContext(s.t.Context(), "sh", "-euc", `curl() { for arg; do printf '%s\0' "$arg"; done; }; `+command)
	shell.Env = []string{"THOLE_TOKEN=" + s.token, "TOKEN=" + token}
	out, err := shell.Output()
	if err != nil {
		s.t.Fatalf("sh cannot read %s: %v", command, err)
	}
	args := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	method, url, body, header := http.MethodGet, "", "", http.Header{}
	for i := 0; i < len(args); i++ {
		value := func() string { i++; return args[i] }
		switch arg := args[i]; arg {
		case "-N":
		case "-X":
			method = value()
		case "-H":
			name, text, _ := strings.Cut(value(), ": ")
			header.Set(name, text)
		case "--json":
			body = value()
			if !json.Valid([]byte(body)) {
				s.t.Errorf("%s is not JSON", body)
			}
			header.Set("Content-Type", "application/json")
		case "--data-binary":
			if body = value(); body != "@FILE" {
				s.t.Errorf("--data-binary %s: want @FILE", body)
			}
			body = "hello"
			header.Set("Content-Type", "application/x-www-form-urlencoded") // curl does
		default:
			url = arg
		}
	}
	path, ok := strings.CutPrefix(url, "http://127.0.0.1:8465")
	if !ok {
		s.t.Fatalf("%s: the address is %q", command, url)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.http.URL+path, bytes.NewBufferString(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatalf("%s: %v", command, err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return resp.StatusCode, ""
	}
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(resp.Body); err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, answer.String()
}
