package apifuzz

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// value returns a value of a schema; it may still be invalid.
func (d *document) value(r *rand.Rand, s schema, depth int) any {
	s = d.resolve(s)
	if all, ok := s["enum"].([]any); ok && len(all) > 0 {
		return all[r.IntN(len(all))]
	}
	if alternatives, ok := s["oneOf"].([]any); ok && len(alternatives) > 0 {
		m, _ := alternatives[r.IntN(len(alternatives))].(map[string]any)
		return d.value(r, m, depth)
	}
	switch kind, _ := s["type"].(string); kind {
	case "object":
		return d.object(r, s, depth)
	case "array":
		items, _ := s["items"].(map[string]any)
		list := []any{}
		for range r.IntN(3) {
			if depth < 5 {
				list = append(list, d.value(r, items, depth+1))
			}
		}
		return list
	case "string":
		return text(r)
	case "integer":
		return r.IntN(100)
	case "number":
		return float64(r.IntN(1000)) / 8
	case "boolean":
		return r.IntN(2) == 0
	}
	return anything(r, depth)
}

func (d *document) object(r *rand.Rand, s schema, depth int) any {
	required := make(map[string]bool)
	names, _ := s["required"].([]any)
	for _, n := range names {
		required[fmt.Sprint(n)] = true
	}
	o := make(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	for name, p := range properties {
		of, _ := p.(map[string]any)
		if required[name] || r.IntN(4) == 0 && depth < 5 {
			o[name] = d.value(r, of, depth+1)
		}
	}
	if more, ok := s["additionalProperties"].(map[string]any); ok {
		for range r.IntN(3) {
			o[text(r)] = d.value(r, more, depth+1)
		}
	}
	return o
}

// anything returns some JSON.
func anything(r *rand.Rand, depth int) any {
	switch n := r.IntN(9); {
	case n == 0:
		return nil
	case n == 1:
		return r.IntN(2) == 0
	case n == 2:
		return r.Int64() - r.Int64()
	case n == 3:
		return r.NormFloat64() * 1e6
	case n == 4 && depth < 5:
		return []any{anything(r, depth+1), anything(r, depth+1)}
	case n == 5 && depth < 5:
		return map[string]any{text(r): anything(r, depth+1), "n": r.IntN(10)}
	}
	return text(r)
}

// text returns text that people could write.
func text(r *rand.Rand) string {
	all := []string{"a", "word", "two words", "Grüße", "日本語", "emoji 🧵", "a/b", "x-y_z.1", "line\nbreak", "\"quoted\"", "e\u0301", "\u202eback"}
	return all[r.IntN(len(all))]
}

// name returns one of a few names, so that names occur again.
func name(r *rand.Rand) string {
	return fmt.Sprintf("%s%d", []string{"n", "Größe", "a.b", "x y"}[r.IntN(4)], r.IntN(8))
}

// evilJSON returns a JSON text, or one that is not JSON, as a value.
func evilJSON(r *rand.Rand) string {
	all := []string{
		`null`, `true`, `0`, `-0`, `-1`, `1.5`, `1e999`, `-1e999`, `1e-999`, `123456789012345678901234567890`, `9007199254740993`,
		`9223372036854775808`, `-9223372036854775809`, `0.1e1`, `1E400`, `""`, `" "`, `"\u0000"`, `"\ud800"`, `"\udc00\ud800"`, `"\ufffe"`,
		`"\r\ndata: x\r\n\r\n"`, `"../../etc/passwd"`, `"'; drop table event; --"`, `"%00"`, `"\u2028"`, `{}`, `[]`, `[[]]`, `[null]`, `{"a":1,"a":2}`,
		`{"":0}`, `{"__proto__":1}`, `NaN`, `01`, `+1`, `.5`, `'a'`, `[1,]`, `{"a"}`, "\"\x01\"", "\"\xff\xfe\"", `"-infinity"`, `"2026-01-01T00:00:00Z"`, `"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59Z"`,
		`"thrd_00000000000000000000000000000000"`, `"*"`, `"global"`, `"outbox/x"`, `"thread/x"`,
	}
	switch r.IntN(12) {
	case 0:
		return `"` + strings.Repeat("x", 1<<r.IntN(20)) + `"`
	case 1:
		return strings.Repeat(`[`, 1<<r.IntN(14)) + strings.Repeat(`]`, 1<<r.IntN(14))
	case 2:
		n := 1 << r.IntN(12)
		return strings.Repeat(`{"a":`, n) + `1` + strings.Repeat(`}`, n)
	case 3:
		return `"` + strings.Repeat("é", 1<<r.IntN(10)) + `"`
	case 4:
		return strings.Repeat("9", 1+r.IntN(400))
	}
	return all[r.IntN(len(all))]
}

// evilText returns text for a path, a parameter or a header.
func evilText(r *rand.Rand) string {
	all := []string{
		"", " ", ".", "..", "/", "a/../b", "\x00", "\x7f", "\n", "\r\nX: y", "%", "%zz", "\xff\xfe", "é", "日本", "\u202e", "*", "**", "a*", "-1", "0", "1e9", "NaN", "999999999999999999999", "null", "true",
		"global", "project:", ":a", "project:*", "project:a,b", "PROJECT:a", " project:a", "user:42", "thrd_0", "thrd_" + strings.Repeat("0", 32), "run_" + strings.Repeat("f", 32),
		"0001deadbeef-0000000000000001", "0001deadbeef-9007199254740993", "9999ffffffff-0000000000000001", `"0001deadbeef-0000000000000001"`, "W/\"x\"", "bG9jay9hQDAwMDFkZWFkYmVlZi0wMDAwMDAwMDAwMDAwMDAx", "a,b,,c", ",", "outbox/x", "thread/*", "app/*",
	}
	if r.IntN(10) == 0 {
		return strings.Repeat([]string{"x", "é", "/x", "%2F"}[r.IntN(4)], 1<<r.IntN(10))
	}
	return all[r.IntN(len(all))]
}

// mutateJSON changes a JSON text at one place.
func mutateJSON(r *rand.Rand, data []byte) []byte {
	switch r.IntN(10) {
	case 0:
		return data[:r.IntN(len(data)+1)]
	case 1:
		i := r.IntN(len(data) + 1)
		return append(append(append([]byte{}, data[:i]...), byte(r.IntN(256))), data[i:]...)
	case 2:
		return []byte(evilJSON(r))
	case 3:
		return append(append([]byte{}, data...), data...)
	}
	var tree any
	if json.Unmarshal(data, &tree) != nil {
		return data
	}
	const here = "@@here@@"
	tree = replaceOne(r, tree, here)
	out, err := json.Marshal(tree)
	if err != nil {
		return data
	}
	return []byte(strings.ReplaceAll(string(out), `"`+here+`"`, evilJSON(r)))
}

// replaceOne replaces a part of tree by v, or adds v beside it.
func replaceOne(r *rand.Rand, tree, v any) any {
	switch t := tree.(type) {
	case map[string]any:
		if len(t) == 0 || r.IntN(8) == 0 {
			t[[]string{"unknown", "id", "", "A", "at"}[r.IntN(5)]] = v
			return t
		}
		n := r.IntN(len(t))
		for _, k := range sortedKeys(t) {
			if n--; n < 0 {
				if r.IntN(10) == 0 {
					delete(t, k)
				} else {
					t[k] = replaceOne(r, t[k], v)
				}
				return t
			}
		}
	case []any:
		if len(t) > 0 && r.IntN(4) > 0 {
			i := r.IntN(len(t))
			t[i] = replaceOne(r, t[i], v)
			return t
		}
	}
	return v
}
