package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal/problem"
)

// Token describes a token. Its secret is shown once, by [Create]; the store keeps
// only a hash of it.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`                // for people
	Actor   string    `json:"actor"`               // who its holder acts as, such as "user:42"
	Grants  []Grant   `json:"grants"`              // at least one
	Created time.Time `json:"created_at"`          //
	Expires time.Time `json:"expires_at,omitzero"` // zero: never
}

// stored is the record token/<id> in the space global.
type stored struct {
	Token
	Hash string `json:"hash"` // hex SHA-256 of the secret's random part
}

// The types of this package's events, which are in the stream token of global.
const (
	TypeCreated = "token.created" // holds a [Token]
	TypeRevoked = "token.revoked" // holds a [Revoked]
)

// Revoked is the data of token.revoked.
type Revoked struct {
	ID string `json:"id"`
}

var tokenName = thole.NameKind{What: "token"}

const (
	prefix     = "token/"
	secretSize = 32 // bytes: 256 bits need no salt and no slow hash
)

// Create makes a token with t's Name, Actor, Grants and Expires, and returns the
// secret to give to its holder: "tok_<id>.<random>". An empty Actor becomes
// "token:<id>". Errors: ErrInvalid. It makes one commit with the event
// token.created, which does not hold the secret.
func Create(ctx context.Context, store *thole.Store, t Token) (secret string, created Token, err error) {
	if len(t.Grants) == 0 {
		return "", Token{}, fmt.Errorf("%w: a token needs at least one grant", thole.ErrInvalid)
	}
	for _, g := range t.Grants {
		if err := g.Check(); err != nil {
			return "", Token{}, err
		}
	}
	if err := errors.Join(tokenName.CheckOptional(t.Name), thole.ActorName.CheckOptional(t.Actor)); err != nil {
		return "", Token{}, err
	}
	if !t.Expires.IsZero() && !t.Expires.After(store.Now()) {
		return "", Token{}, fmt.Errorf("%w: the token would have expired at %s", thole.ErrInvalid, t.Expires.Format(time.RFC3339))
	}
	t.ID = thole.NewID("tok")
	if t.Actor == "" {
		t.Actor = "token:" + t.ID
	}
	random := make([]byte, secretSize)
	rand.Read(random)
	secret = t.ID + "." + base64.RawURLEncoding.EncodeToString(random)
	_, err = global(store).Update(ctx, func(tx *thole.Tx) error {
		t.Created = tx.Now()
		tx.Put(prefix+t.ID, stored{Token: t, Hash: hash(random)}, &thole.WriteOptions{Schema: thole.Schema, Expires: t.Expires})
		tx.Emit("token", TypeCreated, t)
		return nil
	})
	if err != nil {
		return "", Token{}, fmt.Errorf("create token: %w", err)
	}
	return secret, t, nil
}

// global is the space that holds the tokens.
func global(store *thole.Store) *thole.Space { return store.Space("global").For(Name) }

func hash(random []byte) string {
	sum := sha256.Sum256(random)
	return hex.EncodeToString(sum[:])
}

// List returns up to limit tokens (0: a full page) with ids greater than after,
// oldest first.
func List(ctx context.Context, store *thole.Store, after string, limit int) ([]Token, error) {
	q := thole.ListQuery{Prefix: prefix, Limit: limit}
	if after != "" {
		q.After = prefix + after
	}
	recs, err := global(store).List(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	tokens := make([]Token, 0, len(recs))
	for _, r := range recs {
		var s stored
		if err := r.As(&s); err != nil {
			return nil, err
		}
		tokens = append(tokens, s.Token)
	}
	return tokens, nil
}

// Revoke revokes a token: from its commit on no process accepts the token, and open
// streams end within one heartbeat. It returns ErrNotFound if there is no such
// token.
func Revoke(ctx context.Context, store *thole.Store, id string) error {
	_, err := global(store).Update(ctx, func(tx *thole.Tx) error {
		rec, err := tx.Get(prefix + id)
		if err != nil {
			return err
		}
		if !rec.Exists() {
			return thole.ErrNotFound
		}
		tx.Delete(rec.Key)
		tx.Emit("token", TypeRevoked, Revoked{ID: id})
		return nil
	})
	if err != nil {
		return fmt.Errorf("revoke token %.80q: %w", id, err)
	}
	return nil
}

// Tokens authenticates callers by the tokens in a store.
type Tokens struct{ store *thole.Store }

// NewTokens returns an authenticator for store's tokens.
func NewTokens(store *thole.Store) *Tokens {
	return &Tokens{store: store}
}

// Authenticate returns the token of a secret, or problem.ErrUnauthorized, which does
// not say whether the token is missing, unknown, revoked or expired. The comparison
// takes the same time for every wrong secret of one token.
func (t *Tokens) Authenticate(ctx context.Context, secret string) (Token, error) {
	id, encoded, _ := strings.Cut(secret, ".")
	random, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(random) != secretSize || thole.CheckID("tok", id) != nil {
		return Token{}, errRefused
	}
	rec, err := global(t.store).Get(ctx, prefix+id)
	if err != nil {
		return Token{}, err
	}
	var s stored
	if rec.Exists() {
		if err := rec.As(&s); err != nil {
			return Token{}, err
		}
	}
	if subtle.ConstantTimeCompare([]byte(hash(random)), []byte(s.Hash)) != 1 {
		return Token{}, errRefused
	}
	return s.Token, nil
}

var errRefused = fmt.Errorf("%w: the token is unknown, was revoked or has expired", problem.ErrUnauthorized)
