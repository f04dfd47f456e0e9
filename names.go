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

// NameKind is a kind of name that comes from outside, such as names of agents, locks or
// signals. Check every such name when it comes in, so that every key built from it
// later fits into [MaxNameBytes]. Otherwise, for example, a run could not end because
// its agent's name is too long for a key.
type NameKind struct {
	What string // the kind in errors, such as "agent"

	// Keys are the longest keys built from such names; each * stands for a name,
	// escaped by url.PathEscape. If empty, the name itself is limited to MaxNameBytes.
	Keys []string
}

// The kinds of names of actors, which belong to no concept. The longest key with an
// actor's name is that of a lock's waiter, which also has an id. An agent is the actor
// agent:<name>.
var (
	ActorName = NameKind{What: "actor", Keys: []string{"lockwaits/*%2F" + NewID("own"), "slot/*"}}
	AgentName = NameKind{What: "agent", Keys: []string{"lockwaits/agent:*%2F" + NewID("own"), "ready/*/" + NewID("run")}}
)

// Check returns ErrInvalid for a name that is empty, is not UTF-8 or has a control
// character, and ErrTooLarge if the names do not fit into each of the Keys. If a key
// has several names, pass all of them, in the order of the key.
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

// KeyPart returns name percent-escaped, for a part of a key with room for that many
// bytes. For a name that does not fit, it returns "%%" and the name's SHA-256: such
// names are no longer valid, but records of earlier versions have them and must still
// be able to end.
func KeyPart(name string, room int) string {
	escaped := url.PathEscape(name)
	if len(escaped) <= room {
		return escaped
	}
	sum := sha256.Sum256([]byte(name))
	return "%%" + hex.EncodeToString(sum[:]) // no escaped name begins so
}
