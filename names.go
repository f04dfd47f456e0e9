package thole

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// NameKind is a kind of names that come from outside: of agents, of locks, of
// signals. Every such name is checked by its kind when it enters, so that every
// key that is made of it later fits into [MaxNameBytes]: a name that is too long
// for the key of a run's end would keep the run from ending.
type NameKind struct {
	What string // in errors, such as "agent"

	// Keys are the longest keys that are made of such names; each * stands for a
	// name, percent-escaped as url.PathEscape does. None: the name itself is
	// bounded by MaxNameBytes.
	Keys []string
}

// The names of those who act. No concept owns them. An actor may hold a lock,
// whose key takes the actor's name and an id, and an agent is the actor
// agent:<name>.
var (
	ActorName = NameKind{What: "actor", Keys: []string{"lockwaits/*%2F" + NewID("own"), "slot/*"}}
	AgentName = NameKind{What: "agent", Keys: []string{"lockwaits/agent:*%2F" + NewID("own"), "ready/*/" + NewID("run")}}
)

// Check returns ErrInvalid for a name that is empty, not UTF-8 or holds a control
// character, and ErrTooLarge for one that does not fit into the longest key of
// its kind. Where a key takes several names, all of them are given, in the order
// of the key.
func (k NameKind) Check(names ...string) error {
	escaped := 0
	for _, name := range names {
		switch {
		case name == "":
			return invalidf("%s is empty", k.What)
		case !utf8.ValidString(name):
			return invalidf("%s %.80q is not UTF-8", k.What, name)
		case strings.ContainsFunc(name, unicode.IsControl):
			return invalidf("%s %.80q holds a control character", k.What, name)
		case len(k.Keys) == 0 && len(name) > MaxNameBytes:
			return fmt.Errorf("%w: %s %.40q… has %d bytes, the limit is %d", ErrTooLarge, k.What, name, len(name), MaxNameBytes)
		}
		escaped += len(url.PathEscape(name))
	}
	for _, key := range k.Keys {
		if room := MaxNameBytes - len(strings.ReplaceAll(key, "*", "")); escaped > room {
			return fmt.Errorf("%w: %s %.40q… has %d bytes when it is percent-escaped, the limit is %d", ErrTooLarge, k.What, names, escaped, room)
		}
	}
	return nil
}

// CheckOptional is Check for a name that may be empty.
func (k NameKind) CheckOptional(name string) error {
	if name == "" {
		return nil
	}
	return k.Check(name)
}

// KeyPart returns name percent-escaped, for a part of a key that has room for
// that many bytes. A name that does not fit is represented by "%%" and its
// SHA-256: such names are no longer admitted, but records of earlier versions
// hold them, and what those records stand for must still come to an end.
func KeyPart(name string, room int) string {
	escaped := url.PathEscape(name)
	if len(escaped) <= room {
		return escaped
	}
	sum := sha256.Sum256([]byte(name))
	return "%%" + hex.EncodeToString(sum[:]) // which no escaped name is
}
