package filestore

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
)

// Names of spaces and keys become file names that stay distinct on every file
// system, also on one that ignores case, normalizes accents or reserves names:
//
//	a–z 0–9 - _ . + = @ ,   as they are
//	A–Z                     ! and the small letter, as Go's module cache does
//	any other byte          % and two hex digits; also the dot at either end, the
//	                        dot of a directory's ".json", and the first letter of
//	                        "global" and of names that Windows reserves (con, nul, …)
//	an empty name           %
//	a name that is too long its beginning, %- and a hash
//
// A key's parts between slashes are directories, its last part a file ending in
// ".json": the key "a/B" is the file "a/!b.json".

// maxFileName is how many bytes an escaped part may have. With its suffix it must
// fit into the 255 bytes that file systems allow.
const (
	maxFileName = 200
	hashLen     = 32
	recordExt   = ".json"
)

const hexDigits = "0123456789abcdef"

// escape returns the file name for a part of a name.
func escape(part string) string {
	if part == "" {
		return "%"
	}
	b := make([]byte, 0, len(part)+8)
	hexByte := func(c byte) { b = append(b, '%', hexDigits[c>>4], hexDigits[c&15]) }
	dirDot := -1 // the dot of ".json" at the end
	if strings.HasSuffix(part, recordExt) {
		dirDot = len(part) - len(recordExt)
	}
	for i, c := range []byte(part) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', strings.IndexByte("-_+=@,", c) >= 0:
			if i == 0 && reserved(part) {
				hexByte(c)
			} else {
				b = append(b, c)
			}
		case 'A' <= c && c <= 'Z':
			b = append(b, '!', c+'a'-'A')
		case c == '.' && i > 0 && i < len(part)-1 && i != dirDot:
			b = append(b, c)
		default:
			hexByte(c)
		}
	}
	if len(b) <= maxFileName {
		return string(b)
	}
	sum := sha256.Sum256([]byte(part))
	begin := b[:maxFileName-2-hashLen]
	if i := slices.Index(begin[len(begin)-2:], '%'); i >= 0 { // do not split an escape
		begin = begin[:len(begin)-2+i]
	}
	return string(begin) + "%-" + hex.EncodeToString(sum[:])[:hashLen]
}

// reserved reports whether a file must not have that name: some system reserves it,
// or it is "global", which has its own directory beside the kinds of spaces.
func reserved(part string) bool {
	stem, _, _ := strings.Cut(part, ".")
	switch stem {
	case "con", "prn", "aux", "nul", "global":
		return true
	}
	return len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && '0' <= stem[3] && stem[3] <= '9'
}

// unescape is the inverse of escape. It reports false for a name that escape does not
// return, and for a name with a hash.
func unescape(name string) (string, bool) {
	if name == "%" {
		return "", true
	}
	b := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '!' && i+1 < len(name):
			i++
			b = append(b, name[i]-'a'+'A')
		case c == '%' && i+2 < len(name):
			v, err := hex.DecodeString(name[i+1 : i+3])
			if err != nil {
				return "", false
			}
			b = append(b, v[0])
			i += 2
		default:
			b = append(b, c)
		}
	}
	return string(b), escape(string(b)) == name
}

// recordFile returns the path of a key's file below the records of its space.
func recordFile(key string) string {
	parts := strings.Split(key, "/")
	for i := range parts {
		parts[i] = escape(parts[i])
	}
	return filepath.Join(parts...) + recordExt
}

// keyOf returns the key that belongs to the name of a record's file. It reports false
// if a part of the name has a hash, so that only the file's content has the key, or
// if escape does not return such a name.
func keyOf(file string) (string, bool) {
	parts := strings.Split(filepath.ToSlash(strings.TrimSuffix(file, recordExt)), "/")
	for i, name := range parts {
		part, ok := unescape(name)
		if !ok {
			return "", false
		}
		parts[i] = part
	}
	return strings.Join(parts, "/"), true
}

// spaceDir returns the path of a space below the store: kind/id, or "global".
func spaceDir(space string) string {
	kind, id, ok := strings.Cut(space, ":")
	if !ok {
		return space
	}
	return filepath.Join(escape(kind), escape(id))
}
