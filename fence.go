package thole

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/thole-dev/thole/journal"
)

// Fence proves that its holder had a lease: it is the key of the lease's owner record
// and the record's version, the fencing token. A commit under a fence applies only
// while the record has that version. Outside of the program a fence also carries a
// secret: see [Fence.Proof].
type Fence struct {
	Key   string   `json:"key"`
	Token Position `json:"token"`

	// secret returns the secret; nil: it is not known here. It is a function so that
	// printing a Fence never shows it, and so that == on Fences does not compile: use
	// Is.
	secret func() secret
}

// Is reports whether f and g have the same lease and token.
func (f Fence) Is(g Fence) bool { return f.Key == g.Key && f.Token == g.Token }

// At returns f with the token of a lease that was acquired in the commit with result
// res.
func (f Fence) At(res Result) Fence {
	f.Token = res.Last
	return f
}

// String returns the fence without its secret, for people and logs.
func (f Fence) String() string { return f.Key + "@" + f.Token.String() }

// Proof returns the fence with its secret, as opaque text that is safe in a header:
// base64url (RFC 4648, unpadded) of "<key>@<position>", a dot, and base64url of the 16
// bytes of the secret. Anyone who has it can act as the holder of the lease. If the
// secret is not known here, Proof returns "".
func (f Fence) Proof() string {
	if f.secret == nil {
		return ""
	}
	text, secret := base64.RawURLEncoding, f.secret()
	return text.EncodeToString([]byte(f.String())) + "." + text.EncodeToString(secret[:])
}

// ParseFence parses the result of [Fence.Proof], or the form without a secret of
// earlier versions, which proves nothing. Anything else, including the empty string, is
// ErrInvalid. Errors do not contain s.
func ParseFence(s string) (Fence, error) {
	if strings.ContainsAny(s, "\r\n") { // the decoder would skip them
		return Fence{}, invalidf("a fence holds a line break")
	}
	lease, proof, hasProof := strings.Cut(s, ".")
	text := base64.RawURLEncoding.Strict()
	raw, err := text.DecodeString(lease)
	if err != nil {
		return Fence{}, invalidf("a fence is not base64url")
	}
	at := bytes.LastIndexByte(raw, '@')
	if at < 0 {
		return Fence{}, invalidf("a fence names no lease")
	}
	f := Fence{Key: string(raw[:at])}
	if err := journal.CheckName("fence", f.Key); err != nil {
		return Fence{}, err
	}
	if f.Token, err = ParsePosition(string(raw[at+1:])); err != nil || f.Token.IsZero() {
		return Fence{}, invalidf("a fence has no token")
	}
	if hasProof {
		raw, err := text.DecodeString(proof)
		if err != nil || len(raw) != len(secret{}) {
			return Fence{}, invalidf("a fence has a malformed secret")
		}
		f.secret = secret(raw).keep
	}
	return f, nil
}

// Prove returns nil if the lease of f still has f's token and f has its secret, else
// ErrFenced. Call it before using a fence from outside. It compares secrets in constant
// time.
func (sp *Space) Prove(ctx context.Context, f Fence) error {
	rec, err := sp.Get(ctx, f.Key)
	if err != nil {
		return err
	}
	var o leaseOwner
	if rec.Exists() && rec.As(&o) != nil {
		o = leaseOwner{} // not the owner record of a lease
	}
	var given secret
	if f.secret != nil {
		given = f.secret()
	}
	same := subtle.ConstantTimeCompare([]byte(o.Hash), []byte(given.hash())) == 1
	if !same || f.secret == nil || rec.Version != f.Token {
		return sp.fencedBy(f.Key)
	}
	return nil
}

// secret is known only to the holder of a lease.
type secret [16]byte

// hash returns the SHA-256 that is stored for a secret: 128 random bits need no salt
// and no slow hash.
func (s secret) hash() string {
	sum := sha256.Sum256(s[:])
	return hex.EncodeToString(sum[:])
}

func (s secret) keep() secret { return s }
