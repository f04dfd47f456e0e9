package rest

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/thole-dev/thole"
)

// etag returns the ETag of a version in text form.
func etag(version string) string { return `"` + version + `"` }

// entityTag is the value of an If-Match header: a version, or * for any. The zero
// entityTag sets no condition.
type entityTag struct {
	any bool
	at  thole.Position
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *entityTag) UnmarshalText(text []byte) (err error) {
	if string(text) == "*" {
		t.any = true
		return nil
	}
	if t.at, err = parseEntityTag(string(text)); err != nil || t.at.IsZero() {
		return fmt.Errorf("%.60q is not an ETag from here; it is a version in quotes, or *", text)
	}
	return nil
}

func parseEntityTag(s string) (thole.Position, error) {
	s = strings.TrimPrefix(s, "W/") // proxies that compress add it
	inner, open := strings.CutPrefix(s, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	if !open || !closed {
		return thole.Position{}, thole.ErrInvalid
	}
	return thole.ParsePosition(inner)
}

// checkTags returns an error if the If-None-Match of a read is neither * nor a list
// of tags in quotes (RFC 9110, section 13.1.2).
func checkTags(header string) error {
	if header == "*" {
		return nil
	}
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if len(tag) < 2 || tag[0] != '"' || tag[len(tag)-1] != '"' {
			return invalid("If-None-Match", "%.60q is not an ETag, which has quotes", tag)
		}
	}
	return nil
}

// ifMatch is embedded by operations on something that exists, for which If-Match: *
// always holds.
type ifMatch struct {
	IfMatch entityTag `header:"If-Match" doc:"the ETag that must still hold, or *; else 412 with the current one"`
}

// condition returns the condition for a write that may create what it writes.
func (m ifMatch) condition() thole.Condition {
	return thole.Condition{At: m.IfMatch.at, Exists: m.IfMatch.any}
}

// precondition is embedded by operations that may create what they write. The commit
// decides it, after it has looked for the receipt of the idempotency key.
type precondition struct {
	ifMatch
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"it must not exist yet"`
}

func (p precondition) condition() thole.Condition {
	when := p.ifMatch.condition()
	when.Absent = p.IfNoneMatch != ""
	return when
}

// matchesTag reports whether the If-None-Match of a read names the tag (RFC 9110,
// section 13.1.2).
func matchesTag(header, tag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if part = strings.TrimPrefix(strings.TrimSpace(part), "W/"); part == "*" || part == tag {
			return true
		}
	}
	return false
}

// parseFence parses a lease's token as [thole.Fence.Proof] formats it. The error does
// not quote the token, which may hold a secret.
func parseFence(s string) (thole.Fence, error) {
	f, err := thole.ParseFence(strings.TrimSpace(s))
	if err != nil || !strings.HasSuffix(f.Key, "/owner") {
		return thole.Fence{}, invalid("Thole-Fence", "holds what is not a token from here")
	}
	return f, nil
}

// parseFences parses headers that may hold several tokens, separated by commas, such
// as a run's and a lock's.
func parseFences(headers []string) ([]thole.Fence, error) {
	var fences []thole.Fence
	for _, h := range headers {
		for part := range strings.SplitSeq(h, ",") {
			f, err := parseFence(part)
			if err != nil {
				return nil, err
			}
			fences = append(fences, f)
		}
	}
	return fences, nil
}

// requestID returns the id of a request: the client's X-Request-Id if it has the form
// of Thole's own, else a new one.
func requestID(h http.Header) string {
	if id := h.Get("X-Request-Id"); id != "" && thole.CheckID("sess", id) == nil {
		return id
	}
	return thole.NewID("sess")
}

// cause returns the cause of a request's events: the request's id and the ids that the
// client gave it, "sess_… request=<X-Request-Id> trace=<trace id>".
func cause(id string, h http.Header) string {
	c := id
	if given := h.Get("X-Request-Id"); given != id && isToken(given) {
		c += " request=" + given
	}
	// version-traceid-parentid-flags (W3C Trace Context, section 3.2)
	if parts := strings.Split(h.Get("Traceparent"), "-"); len(parts) >= 4 && len(parts[1]) == 32 {
		if _, err := hex.DecodeString(parts[1]); err == nil {
			c += " trace=" + parts[1]
		}
	}
	return c
}

func isToken(s string) bool {
	return s != "" && len(s) <= 128 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}
