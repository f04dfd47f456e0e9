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

// Fence proves that its holder had a lease: the key of the lease's owner record
// and the version it had. A commit under a fence applies only while that still
// holds. Within a program that is all; outside, a fence travels with a secret.
type Fence struct {
	Key   string   `json:"key"`
	Token Position `json:"token"`

	// secret gives the secret; nil: it is not known here. It is a function so
	// that no way to print a struct shows it, and so that a Fence is not compared
	// by ==: see Is.
	secret func() secret
}

// Is reports whether f and g are of the same lease at the same token.
func (f Fence) Is(g Fence) bool { return f.Key == g.Key && f.Token == g.Token }

// At returns the fence of a lease that was acquired in the commit with result
// res.
func (f Fence) At(res Result) Fence {
	f.Token = res.Last
	return f
}

// String describes the fence for people and logs, without its secret.
func (f Fence) String() string { return f.Key + "@" + f.Token.String() }

// Proof returns the fence with its secret, as opaque text that is safe in a
// header: base64url (RFC 4648, unpadded) of "<key>@<position>", a dot, and
// base64url of the 16 bytes of the secret. Whoever has it holds the lease. Of a
// fence whose secret is not known here it is "".
func (f Fence) Proof() string {
	if f.secret == nil {
		return ""
	}
	text, secret := base64.RawURLEncoding, f.secret()
	return text.EncodeToString([]byte(f.String())) + "." + text.EncodeToString(secret[:])
}

// ParseFence reads what [Fence.Proof] returns, and the form without a secret
// that was used before, which proves nothing. Anything else is ErrInvalid, the
// empty string included. Errors do not repeat s.
func ParseFence(s string) (Fence, error) {
	if strings.ContainsAny(s, "\r\n") { // which the decoder skips
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

// Prove returns nil if the lease of f is still held at its token and f has its
// secret, else ErrFenced. What accepts fences from outside calls it before it
// believes one. The comparison takes the same time for every wrong secret.
func (sp *Space) Prove(ctx context.Context, f Fence) error {
	rec, err := sp.Get(ctx, f.Key)
	if err != nil {
		return err
	}
	var o leaseOwner
	if rec.Exists() && rec.As(&o) != nil {
		o = leaseOwner{} // a record of something else
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

// secret is what only the holder of a lease knows.
type secret [16]byte

// hash is what is stored of a secret: 128 random bits need no salt and no slow
// hash.
func (s secret) hash() string {
	sum := sha256.Sum256(s[:])
	return hex.EncodeToString(sum[:])
}

func (s secret) keep() secret { return s }
