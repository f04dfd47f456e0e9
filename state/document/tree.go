package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// A tree is JSON as map[string]any, []any, string, json.Number, bool or nil.

// decode parses JSON from outside. Errors: ErrInvalid or ErrTooLarge if it may not be
// stored.
func decode(what string, raw json.RawMessage) (any, error) {
	if err := journal.CheckJSON(what, raw); err != nil {
		return nil, err
	}
	return parse(what, raw)
}

// parse is decode for values that are already stored.
func parse(what string, raw json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // numbers keep all their digits
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, invalid("%s: %v", what, err)
	}
	return v, nil
}

// encode returns the one text form of a value: names sorted, and nothing escaped
// without need.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, invalid("%v", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func treeOf(v any) (any, error) {
	raw, err := encode(v)
	if err != nil {
		return nil, err
	}
	return decode("value", raw)
}

// merge applies a merge patch with the algorithm of RFC 7396, section 2.
func merge(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = make(map[string]any, len(p))
	}
	for name, v := range p {
		if v == nil {
			delete(t, name)
		} else {
			t[name] = merge(t[name], v)
		}
	}
	return t
}

// parsePointer splits a JSON Pointer (RFC 6901).
func parsePointer(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		return nil, invalid("path %.40q does not begin with /", s)
	}
	parts := strings.Split(s[1:], "/")
	if len(parts) > journal.MaxDepth {
		return nil, invalid("path %.40q… is deeper than %d levels", s, journal.MaxDepth)
	}
	for i := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(parts[i], "~1", "/"), "~0", "~")
	}
	return parts, nil
}

func pointerTo(path, part string) string {
	return path + "/" + strings.ReplaceAll(strings.ReplaceAll(part, "~", "~0"), "/", "~1")
}

// at replaces the value at path by the result of f and returns the new root. An item of
// a list must exist; so must objects on the way, unless grow is set: then they are
// created. The last member need not exist.
func at(node any, path []string, grow bool, f func(v any, exists bool) (any, error)) (any, error) {
	if len(path) == 0 {
		return f(node, true)
	}
	name, rest := path[0], path[1:]
	switch n := node.(type) {
	case map[string]any:
		child, exists := n[name]
		var err error
		if !exists && len(rest) == 0 {
			child, err = f(nil, false)
		} else {
			switch {
			case !exists && !grow:
				return nil, invalid("there is no %q on the way", name)
			case !exists:
				child = map[string]any{}
			}
			child, err = at(child, rest, grow, f)
		}
		n[name] = child
		return n, err
	case []any:
		i, err := index(name, len(n)-1)
		if err != nil {
			return nil, err
		}
		n[i], err = at(n[i], rest, grow, f)
		return n, err
	}
	return nil, invalid("there is no %q in a value that is neither object nor list", name)
}

func index(s string, last int) (int, error) {
	i, err := strconv.Atoi(s)
	if err != nil || i < 0 || i > last || strconv.Itoa(i) != s {
		return 0, invalid("%.40q is no place in a list with indexes 0 to %d", s, last)
	}
	return i, nil
}

// find returns the value at path, if there is one.
func find(node any, path []string) (any, bool) {
	for _, name := range path {
		switch n := node.(type) {
		case map[string]any:
			child, ok := n[name]
			if !ok {
				return nil, false
			}
			node = child
		case []any:
			i, err := index(name, len(n)-1)
			if err != nil {
				return nil, false
			}
			node = n[i]
		default:
			return nil, false
		}
	}
	return node, true
}

// clone copies a tree. budget is about the number of bytes that all copies of one patch
// may still take.
func clone(v any, budget *int) (any, error) {
	*budget -= 8
	var err error
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for name, child := range v {
			*budget -= len(name)
			if c[name], err = clone(child, budget); err != nil {
				return nil, err
			}
		}
		return c, nil
	case []any:
		c := make([]any, len(v))
		for i, child := range v {
			if c[i], err = clone(child, budget); err != nil {
				return nil, err
			}
		}
		return c, nil
	case string:
		*budget -= len(v)
	case json.Number:
		*budget -= len(v)
	}
	if *budget < 0 {
		return nil, fmt.Errorf("%w: the patch copies more than %d bytes", thole.ErrTooLarge, thole.MaxValueBytes)
	}
	return v, nil
}

// equal compares values as RFC 6902, section 4.6, does: numbers by value.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, v := range a {
			if w, ok := b[name]; !ok || !equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(a, b)
	}
	return a == b
}
