package rest

import (
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/thole-dev/thole"
)

// etag is the ETag of a version in text form.
func etag(version string) string { return `"` + version + `"` }

// version sets the answer's ETag. A zero version has none.
func (c *call) version(p thole.Position) {
	if !p.IsZero() {
		c.w.Header().Set("ETag", etag(p.String()))
	}
}

// precondition is what If-Match or If-None-Match ask of a write.
type precondition struct {
	set    bool           // there is one
	absent bool           // If-None-Match: *
	exists bool           // If-Match: *
	at     thole.Position // If-Match: a version
}

// precondition reads the request's. One version at most: a list of them, or a
// version that must not be there, is of no use for a write.
func (c *call) precondition() (precondition, error) {
	match, noneMatch := c.r.Header.Get("If-Match"), c.r.Header.Get("If-None-Match")
	switch {
	case match != "" && noneMatch != "":
		return precondition{}, invalid("If-Match", "and If-None-Match exclude each other")
	case noneMatch == "*":
		return precondition{set: true, absent: true}, nil
	case noneMatch != "":
		return precondition{}, invalid("If-None-Match", "takes only * on a write")
	case match == "*":
		return precondition{set: true, exists: true}, nil
	case match != "":
		at, err := parseTag(match)
		if err != nil || at.IsZero() {
			return precondition{}, invalid("If-Match", "%.60q is not an ETag from here", match)
		}
		return precondition{set: true, at: at}, nil
	}
	return precondition{}, nil
}

func parseTag(tag string) (thole.Position, error) {
	tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/") // added by proxies that compress
	return thole.ParsePosition(strings.Trim(tag, `"`))
}

// matchesTag is If-None-Match on a read (RFC 9110, section 13.1.2).
func matchesTag(header, tag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if part = strings.TrimPrefix(strings.TrimSpace(part), "W/"); part == "*" || part == tag {
			return true
		}
	}
	return false
}

// parseFence reads a lease's token, as [thole.Fence.String] writes it.
func parseFence(s string) (thole.Fence, error) {
	f, err := thole.ParseFence(strings.TrimSpace(s))
	if err != nil || !strings.HasSuffix(f.Key, "/owner") {
		return thole.Fence{}, invalid("Thole-Fence", "%.80q is not a token from here", s)
	}
	return f, nil
}

// parseFences reads headers that may hold several tokens, separated by commas:
// a run's and a lock's.
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

// requestID is the id of a request: the client's X-Request-Id if that is one of
// ours, else a new one.
func requestID(h http.Header) string {
	if id := h.Get("X-Request-Id"); thole.CheckID("sess", id) == nil {
		return id
	}
	return thole.NewID("sess")
}

// cause is what a request's events name as theirs: its id, and what the client
// gave to find it by: "sess_… request=<X-Request-Id> trace=<trace id>".
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

// condition reads the precondition of a write for a concept that takes a
// version or "absent". current tells the version that is there; it is asked
// only for If-Match: *, of which nothing is left after it was found to hold but
// that version.
func (c *call) condition(current func() (thole.Position, error)) (at thole.Position, absent bool, err error) {
	p, err := c.precondition()
	if err != nil || !p.exists {
		return p.at, p.absent, err
	}
	at, err = current()
	if err == nil && at.IsZero() {
		err = &thole.ConflictError{Space: c.space.Name(), Check: thole.Check{Key: c.r.URL.Path}}
	}
	return at, false, err
}
