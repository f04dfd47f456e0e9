package journal

import (
	"encoding/hex"
	"strings"

	"github.com/google/uuid"
)

// NewID returns prefix + "_" + 32 hex digits of a UUIDv7 (RFC 9562), so the ids of one
// process sort by the time of their creation. The prefixes are in the design's
// glossary: thrd, sess, run, msg, turn, blk, todo, dec, task.
func NewID(prefix string) string {
	id := uuid.Must(uuid.NewV7())
	b := make([]byte, 0, len(prefix)+1+32)
	b = append(b, prefix...)
	b = append(b, '_')
	return string(hex.AppendEncode(b, id[:]))
}

// CheckID returns ErrInvalid unless id is prefix + "_" + 32 lower-case hex digits.
// Check an id from outside before using it in a key.
func CheckID(prefix, id string) error {
	digits, ok := strings.CutPrefix(id, prefix+"_")
	if !ok || len(digits) != 32 || !lowerHex(digits) {
		return invalidf("%.80q is not an id of the form %s_<32 hex digits>", id, prefix)
	}
	return nil
}

func lowerHex(s string) bool {
	for _, c := range []byte(s) {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}
