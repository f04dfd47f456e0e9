package filestore

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
)

// Names of spaces and keys become names of files that every file system keeps
// apart, also one that ignores case, joins accents or reserves names:
//
//	a–z 0–9 - _ . + = @ ,   as they are
//	A–Z                     ! and the small letter, as Go's module cache does
//	any other byte          % and two hex digits; so the dot at either end, the
//	                        dot of a directory's ".json", and the first letter of
//	                        what Windows reserves (con, nul, …) and of "global"
//	nothing                 %
//	what gets too long      its beginning, %- and a hash
//
// A key's parts between slashes are directories, its last part a file ending in
// ".json": the key "a/B" is the file "a/!b.json".

// maxFileName is how long an escaped part may be, so that it fits with its
// suffix into the 255 bytes that file systems have.
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
	if i := slices.Index(begin[len(begin)-2:], '%'); i >= 0 { // no half of an escape
		begin = begin[:len(begin)-2+i]
	}
	return string(begin) + "%-" + hex.EncodeToString(sum[:])[:hashLen]
}

// reserved reports whether no file may have that name on some system, or in the
// place where kinds of spaces are.
func reserved(part string) bool {
	stem, _, _ := strings.Cut(part, ".")
	switch stem {
	case "con", "prn", "aux", "nul", "global":
		return true
	}
	return len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && '0' <= stem[3] && stem[3] <= '9'
}

// unescape is the part that escape made name of. It reports false for any other
// name, and for one with a hash.
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

// recordFile is the path of a key's record below the records of its space.
func recordFile(key string) string {
	parts := strings.Split(key, "/")
	for i := range parts {
		parts[i] = escape(parts[i])
	}
	return filepath.Join(parts...) + recordExt
}

// keyOf is the key whose record is in the file. It reports false if a part of
// the name has a hash, so that only the file itself can tell, or is none.
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

// spaceDir is the path of a space below the store: kind/id, or "global".
func spaceDir(space string) string {
	kind, id, ok := strings.Cut(space, ":")
	if !ok {
		return space
	}
	return filepath.Join(escape(kind), escape(id))
}
