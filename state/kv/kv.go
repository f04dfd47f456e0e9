// Package kv keeps plain values under a namespace and a key: only the current value, with a
// version and an optional time to live. Package document also keeps past values.
//
// The record kv/<namespace>/<key> holds the value itself; both names are percent-escaped.
// Events in the stream kv/<namespace> say that a key was set, deleted or expired; they do
// not hold the value.
package kv

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// The types of this package's events; each holds a [Change].
const (
	TypeSet     = "kv.set"
	TypeDeleted = "kv.deleted"
	TypeExpired = "kv.expired"
)

// Entry is the value under a key. Exists is false if the key is absent.
type Entry struct {
	Namespace string          `json:"namespace"`
	Key       string          `json:"key"`
	Exists    bool            `json:"exists"`
	Data      json.RawMessage `json:"data,omitempty"`
	Version   thole.Position  `json:"version"` // zero: absent
	Updated   time.Time       `json:"updated_at,omitzero"`
	Expires   time.Time       `json:"expires_at,omitzero"` // zero: never
}

// As decodes the entry's value into v; it does nothing if the key is absent. Errors:
// ErrCorrupt if the value does not fit v.
func (e Entry) As(v any) error {
	if !e.Exists {
		return nil
	}
	return journal.Decode("value of "+e.Namespace+"/"+e.Key, e.Data, v)
}

// Change is the data of this package's events. A new value's version is the
// event's own position when it is the only event of its commit.
type Change struct {
	Namespace string         `json:"namespace"`
	Key       string         `json:"key"`
	Previous  thole.Position `json:"previous"` // version that was replaced or removed; zero: there was none
	Expires   time.Time      `json:"expires_at,omitzero"`
}

// Store is the key-value storage of one space.
type Store struct{ sp *thole.Space }

// In returns the key-value storage of sp, whose store must have been given [Concept].
func In(sp *thole.Space) *Store { return &Store{sp: sp.For(Name)} }

// names is the kind of namespace and key together.
var names = thole.NameKind{What: "namespace and key", Keys: []string{"kv/*/*"}}

// name returns the record key of namespace and key.
func name(namespace, key string) (string, error) {
	if namespace == "" || key == "" {
		return "", fmt.Errorf("%w: kv needs a namespace and a key", thole.ErrInvalid)
	}
	return below(namespace) + url.PathEscape(key), nil
}

func below(namespace string) string { return "kv/" + url.PathEscape(namespace) + "/" }

func stream(namespace string) string { return "kv/" + url.PathEscape(namespace) }

// parse is the reverse of name.
func parse(record string) (namespace, key string, err error) {
	ns, k, ok := strings.Cut(strings.TrimPrefix(record, "kv/"), "/")
	if !ok {
		return "", "", fmt.Errorf("%w: record key %q is not of kv", thole.ErrCorrupt, record)
	}
	if namespace, err = thole.UnescapeName(ns); err == nil {
		key, err = thole.UnescapeName(k)
	}
	return namespace, key, err
}

func entry(namespace, key string, rec thole.Record) Entry {
	return Entry{
		Namespace: namespace, Key: key, Exists: rec.Exists(), Data: rec.Value,
		Version: rec.Version, Updated: rec.Updated, Expires: rec.Expires,
	}
}

// Get returns the entry under key. An absent key is not an error.
func (s *Store) Get(ctx context.Context, namespace, key string) (Entry, error) {
	k, err := name(namespace, key)
	if err != nil {
		return Entry{}, err
	}
	rec, err := s.sp.Get(ctx, k)
	if err != nil {
		return Entry{}, err
	}
	return entry(namespace, key, rec), nil
}

// SetOptions of [Store.Set]. The zero value sets without conditions, for ever.
type SetOptions struct {
	TTL      time.Duration  // zero: does not expire; a Set without one removes an earlier TTL
	IfMatch  thole.Position // the entry must have this version; zero: any
	IfExists bool           // the key must exist
	IfAbsent bool           // the key must be absent
}

// Set stores data, as JSON of at most 512 KiB, under key and returns the new entry. Errors:
// *ConflictError, with the current version, if a condition does not hold; ErrInvalid;
// ErrTooLarge; those of [thole.Space.Commit].
func (s *Store) Set(ctx context.Context, namespace, key string, data any, opts *SetOptions) (Entry, error) {
	ctx = thole.Call(ctx, "kv.set", namespace, key)
	var o SetOptions
	if opts != nil {
		o = *opts
	}
	k, err := name(namespace, key)
	if err != nil {
		return Entry{}, err
	}
	if err := thole.CheckTTL("a ttl", o.TTL); err != nil {
		return Entry{}, fmt.Errorf("set %s: %w", k, err)
	}
	if o.IfAbsent && (o.IfExists || !o.IfMatch.IsZero()) {
		return Entry{}, fmt.Errorf("set %s: %w: if-absent with another condition", k, thole.ErrInvalid)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return Entry{}, fmt.Errorf("set %s: %w: %v", k, thole.ErrInvalid, err)
	}
	ctx = thole.Reread(ctx, func(ctx context.Context, _ []thole.Event) (Entry, error) {
		now, err := s.Get(ctx, namespace, key)
		if err == nil && !bytes.Equal(now.Data, raw) {
			now = Entry{Namespace: namespace, Key: key, Exists: true, Data: raw}
		}
		return now, err
	})
	e, r, err := thole.Update(ctx, s.sp, func(tx *thole.Tx) (Entry, error) {
		rec := thole.Record{Value: raw, Updated: tx.Now()}
		if o.TTL > 0 {
			rec.Expires = tx.Expiry(o.TTL)
		}
		was, err := tx.Require(k, thole.Condition{At: o.IfMatch, Exists: o.IfExists, Absent: o.IfAbsent})
		if err == nil && !was.Exists() {
			err = names.Check(namespace, key)
		}
		if err != nil {
			return Entry{}, err
		}
		// A record without a TTL needs no sweep and so no Notify.
		tx.Put(k, rec.Value, &thole.WriteOptions{Expires: rec.Expires, Notify: o.TTL > 0})
		tx.Emit(stream(namespace), TypeSet, Change{namespace, key, was.Version, rec.Expires})
		e := entry(namespace, key, rec)
		e.Exists = true
		return e, nil
	})
	if err != nil {
		return Entry{}, fmt.Errorf("set %s: %w", k, err)
	}
	e.Version = r.Last
	return e, nil
}

// DeleteOptions of [Store.Delete]. The zero value deletes without conditions.
type DeleteOptions struct {
	IfMatch  thole.Position // the entry must have this version; zero: any
	IfExists bool           // the key must exist
}

// Delete deletes the entry under key and reports whether there was one. An absent key is not
// an error. Errors: *ConflictError if a condition does not hold; ErrInvalid.
func (s *Store) Delete(ctx context.Context, namespace, key string, opts *DeleteOptions) (bool, error) {
	ctx = thole.Call(ctx, "kv.delete", namespace, key)
	var o DeleteOptions
	if opts != nil {
		o = *opts
	}
	k, err := name(namespace, key)
	if err != nil {
		return false, err
	}
	ctx = thole.Reread(ctx, func(ctx context.Context, _ []thole.Event) (bool, error) {
		return true, nil
	})
	existed, _, err := thole.Update(ctx, s.sp, func(tx *thole.Tx) (bool, error) {
		was, err := tx.Require(k, thole.Condition{At: o.IfMatch, Exists: o.IfExists})
		if err != nil || !was.Exists() {
			return false, err
		}
		tx.Delete(k)
		tx.Emit(stream(namespace), TypeDeleted, Change{Namespace: namespace, Key: key, Previous: was.Version})
		return true, nil
	})
	if err != nil {
		return false, fmt.Errorf("delete %s: %w", k, err)
	}
	return existed, nil
}

// expire deletes an expired key and emits kv.expired.
func expire(ctx context.Context, sp *thole.Space, rec thole.Record) error {
	namespace, key, err := parse(rec.Key)
	if err != nil {
		return err
	}
	data, err := json.Marshal(Change{Namespace: namespace, Key: key, Previous: rec.Version, Expires: rec.Expires})
	if err != nil {
		return err
	}
	_, err = sp.Commit(ctx, thole.Commit{
		Checks: []thole.Check{{Key: rec.Key, At: rec.Version}},
		Events: []thole.Event{{Stream: stream(namespace), Type: TypeExpired, Data: data}},
		Writes: []thole.Write{{Key: rec.Key}},
	})
	return err
}
