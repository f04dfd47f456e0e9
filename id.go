package thole

import (
	"encoding/hex"

	"github.com/google/uuid"
)

// NewID returns prefix + "_" + 32 hex digits of a UUIDv7 (RFC 9562), so ids of
// one process sort by the time they were made. The prefixes are in the design's
// glossary: thrd, sess, run, msg, turn, blk, todo, dec, task.
func NewID(prefix string) string {
	id := uuid.Must(uuid.NewV7())
	b := make([]byte, 0, len(prefix)+1+32)
	b = append(b, prefix...)
	b = append(b, '_')
	return string(hex.AppendEncode(b, id[:]))
}

// CheckID reports, as ErrInvalid, an id that is not prefix + "_" + 1…64
// characters of a–z, 0–9. Ids from outside are checked before they become part
// of a key.
func CheckID(prefix, id string) error {
	rest, ok := cutPrefix(id, prefix)
	if ok && rest != "" && len(rest) <= 64 {
		for _, c := range []byte(rest) {
			if !('a' <= c && c <= 'z' || '0' <= c && c <= '9') {
				ok = false
				break
			}
		}
		if ok {
			return nil
		}
	}
	return invalidf("%.80q is not an id of the form %s_<hex>", id, prefix)
}

func cutPrefix(id, prefix string) (string, bool) {
	n := len(prefix)
	if len(id) <= n || id[:n] != prefix || id[n] != '_' {
		return "", false
	}
	return id[n+1:], true
}
