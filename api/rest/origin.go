package rest

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/thole-dev/thole"
)

// CheckOrigin returns ErrInvalid for an origin that could never match, because no
// browser sends it in that form (RFC 6454, section 6.2). The form is scheme://host or
// scheme://host:port, in lower case, with http or https, without the scheme's default
// port, a path or a final slash. "null" and "*" are refused too: anybody can make a
// page with such an origin.
func CheckOrigin(origin string) error {
	bad := func(why string) error {
		return fmt.Errorf("%w: origin %.80q %s; it is scheme://host[:port], such as https://app.example", thole.ErrInvalid, origin, why)
	}
	switch {
	case origin == "null" || strings.Contains(origin, "*"):
		return bad("would let the pages of anybody in")
	case origin != strings.ToLower(origin):
		return bad("is not in lower case")
	}
	u, err := url.Parse(origin)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.User != nil:
		return bad("has no host")
	case u.Scheme != "http" && u.Scheme != "https":
		return bad("has a scheme other than http and https")
	case u.Port() == map[string]string{"http": "80", "https": "443"}[u.Scheme] || strings.HasSuffix(u.Host, ":"):
		return bad("names the port that its scheme has anyway")
	case origin != u.Scheme+"://"+u.Host:
		return bad("has something behind the host, perhaps a slash")
	}
	name := u.Hostname()
	if _, err := netip.ParseAddr(name); err != nil && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" {
		return bad("has a host with other characters than a–z, 0–9, dots and hyphens; browsers send xn--… for those")
	}
	return nil
}
