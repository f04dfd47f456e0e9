package main_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

const attachmentScript = `turns:
  - prompt: Look at this
    steps:
      - expect: ['[image image/png]', 'notes.txt]', 'buy some milk', '[file application/pdf] plan.pdf', '[image image/jpeg] https://example.com/a.jpg', 'from a blob']
        text: I saw all of it.
`

const dataPNG = "data:image/png;base64,iVBORw0KGgo="

// The model gets what a client attaches to a run over HTTP.
func TestAttachmentsReachTheModel(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{Script: attachmentScript})
	const space = "/v1/spaces/project:sight"
	var thread struct{ ID string }
	s.Must("POST", space+"/threads", map[string]any{}, &thread)
	sum := sha256.Sum256([]byte(`"this is from a blob"`)) // sent as JSON
	blob := hex.EncodeToString(sum[:])
	s.Must("PUT", space+"/blobs/"+blob, "this is from a blob", nil, "Content-Type", "application/octet-stream")
	data := func(media, content string) string {
		return "data:" + media + ";base64," + base64.StdEncoding.EncodeToString([]byte(content))
	}
	var started servertest.RunState
	s.Must("POST", space+"/threads/"+thread.ID+"/runs", map[string]any{"prompt": "Look at this", "attachments": []map[string]string{
		{"name": "dot.png", "type": "image/png", "url": dataPNG},
		{"name": "notes.txt", "type": "text/plain", "url": data("text/plain", "buy some milk")},
		{"name": "plan.pdf", "type": "application/pdf", "url": data("application/pdf", "%PDF-1.7")},
		{"type": "image/jpeg", "url": "https://example.com/a.jpg"},
		{"name": "b.txt", "type": "text/plain", "url": blob},
	}}, &started)
	ended := s.Ended(space+"/threads/"+thread.ID+"/runs/"+started.ID, 20*time.Second)
	if ended.Status != "succeeded" {
		t.Errorf("the run %s: %s", ended.Status, ended.Error)
	}
}

// An attachment whose URL names something on the server, or nothing, is refused, in
// whichever part of a request it is.
func TestAnAttachmentIsDataAWebAddressOrABlob(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{Script: attachmentScript})
	const space = "/v1/spaces/project:sight"
	var thread struct{ ID string }
	s.Must("POST", space+"/threads", map[string]any{}, &thread)
	at := space + "/threads/" + thread.ID
	for _, url := range []string{"file:///etc/passwd", "FILE:/etc/passwd", " file:///etc/passwd", "/etc/passwd", "ftp://h/x", "javascript:alert(1)", "http:", "data:", "deadbeef", ""} {
		for path, body := range map[string]any{
			"/runs":     map[string]any{"prompt": "Look at this", "attachments": []map[string]string{{"name": "a", "url": url}}},
			"/messages": map[string]any{"role": "user", "blocks": []map[string]string{{"type": "file", "content": url}}},
		} {
			if r, err := s.Do(t.Context(), "POST", at+path, body); err != nil || r.Code() != "invalid" {
				t.Errorf("POST …%s with %q: got %d %s, %v; want invalid", path, url, r.Status, r.Body, err)
			}
		}
	}
	large := "data:image/png;base64," + strings.Repeat("A", 600<<10)
	r, err := s.Do(t.Context(), "POST", at+"/runs", map[string]any{"prompt": "Look at this", "attachments": []map[string]string{{"url": large}}})
	if err != nil || r.Code() != "too_large" {
		t.Errorf("an attachment of 600 KiB: got %d %.200s, %v; want too_large", r.Status, r.Body, err)
	}
}
