package rest

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// maxMasked bounds how many ids are looked up to mask the texts of one answer. The
// first id of each text and those that are already known do not count.
const maxMasked = 256

// digits is how many an id has.
const digits = 32

// ids finds ids in texts. It holds their prefixes, the longest first.
type ids []string

// next returns the begin and the end in text of the first id in text[from:],
// (?i)(?:prefix|prefix)_[0-9a-f]{32}, or 0, 0 if there is none. It ignores case: an id in
// capitals discloses as much.
func (prefixes ids) next(text string, from int) (begin, end int) {
	for at := from; ; at++ {
		next := strings.IndexByte(text[at:], '_')
		if at += next; next < 0 || len(text)-at <= digits {
			return 0, 0
		}
		for _, prefix := range prefixes {
			begin := at - len(prefix)
			if begin >= from && strings.EqualFold(text[begin:at], prefix) && allHex(text[at+1:at+1+digits]) {
				return begin, at + 1 + digits
			}
		}
	}
}

func allHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
			return false
		}
	}
	return true
}

// mask returns text with the digits of hidden ids replaced by zeros. The length stays
// the same, so JSON stays valid.
func (p *privacy) mask(text string) string {
	if p == nil {
		return text
	}
	first := true
	return p.ids().zero(text, func(id string) bool {
		hidden := p.masks(id, first)
		first = false
		return hidden
	})
}

// maskData is mask for JSON. It leaves the members of the object whose names are shown
// as they are.
func (p *privacy) maskData(data string, shown []string) string {
	out, from := "", 0
	if len(shown) > 0 && strings.HasPrefix(data, "{") {
		d := json.NewDecoder(strings.NewReader(data))
		d.Token() // the brace
		for d.More() {
			name, err := d.Token()
			var value json.RawMessage
			if err != nil || d.Decode(&value) != nil {
				break // the rest is masked
			}
			if text, _ := name.(string); slices.Contains(shown, text) {
				end := int(d.InputOffset())
				out += p.maskJSON(data[from:end-len(value)]) + string(value)
				from = end
			}
		}
	}
	return out + p.maskJSON(data[from:])
}

// maskJSON is mask for a part of a JSON text, in which ids may be written with escapes.
func (p *privacy) maskJSON(text string) string {
	plain := unescape(text)
	if masked := p.mask(plain); masked != plain {
		return masked
	}
	return text
}

// unescape returns JSON without the escapes \u00XX that stand for what ids consist of:
// ASCII letters, digits and _.
func unescape(text string) string {
	if !strings.Contains(text, `\u00`) {
		return text
	}
	out, from := make([]byte, 0, len(text)), 0
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if i+6 <= len(text) && text[i+1] == 'u' {
			c, err := strconv.ParseUint(text[i+2:i+6], 16, 8)
			if err == nil && (c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z') {
				out = append(append(out, text[from:i]...), byte(c))
				from = i + 6
			}
		}
		i++ // what follows a backslash begins no escape
	}
	return string(append(out, text[from:]...))
}

// maskProblem is mask for an error's text. It leaves ids that the request itself
// named: the caller knows them. If the call is not about one space, nobody can tell
// where an id is from, so it masks all others.
func (c *call) maskProblem(text string) string {
	p := c.private()
	if c.space == nil && !c.isAdmin("*") {
		p = &privacy{c: c, concepts: c.api.store.Concepts()}
	}
	if p == nil {
		return text
	}
	return p.ids().zero(text, func(id string) bool { return !p.isNamed(id) && (p.space == nil || p.masks(id, false)) })
}

// zero returns text with the digits of ids for which hidden returns true replaced by
// zeros. It passes ids to hidden in lower case.
func (prefixes ids) zero(text string, hidden func(id string) bool) string {
	var out []byte
	for begin, end := prefixes.next(text, 0); end > 0; begin, end = prefixes.next(text, end) {
		id := strings.ToLower(text[begin:end])
		if !hidden(id) {
			continue
		}
		if out == nil {
			out = []byte(text)
		}
		for i := end - digits; i < end; i++ {
			out[i] = '0'
		}
	}
	if out == nil {
		return text
	}
	return string(out)
}

func (p *privacy) ids() ids { return p.concepts.IDPrefixes() }

// masks reports whether an id in a text is to be masked: it is hidden, or too many
// have been looked up already. The first id of a text is always looked up, since most
// texts are one name.
func (p *privacy) masks(id string, first bool) bool {
	key := p.concepts.KeyOfID(id)
	_, known := p.of[key]
	switch {
	case p.zeroed[id]:
		return true
	case known || first:
	case p.masked >= maxMasked:
		return !p.isNamed(id)
	default:
		p.masked++
	}
	hidden := p.hidesRecord(key)
	if hidden && !known {
		keepOf(p.zeroed, id, true)
	}
	return hidden
}

// isNamed reports whether the request itself names an id.
func (p *privacy) isNamed(id string) bool {
	if p.named == nil {
		p.named = make(map[string]bool)
		for _, text := range []string{p.c.r.URL.Path, p.c.r.URL.RawQuery, string(p.c.raw)} {
			for begin, end := p.ids().next(text, 0); end > 0; begin, end = p.ids().next(text, end) {
				p.named[strings.ToLower(text[begin:end])] = true
			}
		}
	}
	return p.named[id]
}
