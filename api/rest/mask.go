package rest

import "strings"

// maxMasked bounds how many ids are looked up to mask the texts of one answer. The
// first id of each text and those that are already known do not count.
const maxMasked = 256

// nextID returns the begin and the end in text of the first id of a thread or a run in
// text[from:], (?i)(?:thrd|run)_[0-9a-f]{32}, or 0, 0 if there is none. It ignores
// case: an id in capitals discloses as much.
func nextID(text string, from int) (begin, end int) {
	const digits = 32
	for at := from; ; at++ {
		next := strings.IndexByte(text[at:], '_')
		if at += next; next < 0 || len(text)-at <= digits {
			return 0, 0
		}
		kind := 0
		if at >= 3 && strings.EqualFold(text[at-3:at], "run") {
			kind = 3
		} else if at >= 4 && strings.EqualFold(text[at-4:at], "thrd") {
			kind = 4
		}
		if kind > 0 && allHex(text[at+1:at+1+digits]) {
			return at - kind, at + 1 + digits
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
	return zeroIDs(text, func(id string) bool {
		hidden := p.masks(id, first)
		first = false
		return hidden
	})
}

// maskProblem is mask for an error's text. It leaves ids that the request itself
// named: the caller knows them.
func (c *call) maskProblem(text string) string {
	p := c.private()
	if p == nil {
		return text
	}
	return zeroIDs(text, func(id string) bool { return !p.isNamed(id) && p.masks(id, false) })
}

// zeroIDs returns text with the digits of ids for which hidden returns true replaced
// by zeros. It passes ids to hidden in lower case.
func zeroIDs(text string, hidden func(id string) bool) string {
	var out []byte
	for begin, end := nextID(text, 0); end > 0; begin, end = nextID(text, end) {
		id := strings.ToLower(text[begin:end])
		if !hidden(id) {
			continue
		}
		if out == nil {
			out = []byte(text)
		}
		for i := begin + strings.IndexByte(id, '_') + 1; i < end; i++ {
			out[i] = '0'
		}
	}
	if out == nil {
		return text
	}
	return string(out)
}

// masks reports whether an id in a text is to be masked: it is hidden, or too many
// have been looked up already. The first id of a text is always looked up, since most
// texts are one name.
func (p *privacy) masks(id string, first bool) bool {
	isRun := strings.HasPrefix(id, "run_")
	_, known := p.threads[id]
	if isRun {
		_, known = p.runs[id]
	}
	switch {
	case p.zeroed[id]:
		return true
	case known || first:
	case p.masked >= maxMasked:
		return !p.isNamed(id)
	default:
		p.masked++
	}
	hidden := isRun && p.hidesRun(id) || !isRun && p.hidesThread(id)
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
			for begin, end := nextID(text, 0); end > 0; begin, end = nextID(text, end) {
				p.named[strings.ToLower(text[begin:end])] = true
			}
		}
	}
	return p.named[id]
}
