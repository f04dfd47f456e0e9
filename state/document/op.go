package document

import (
	"encoding/json"
	"fmt"

	"github.com/thole-dev/thole"
)

// Op is a change that the store computes from the current value.
type Op struct {
	Op   string `json:"op" enum:"increment|append"`
	Path string `json:"path" doc:"JSON Pointer (RFC 6901); missing objects on the way are created" example:"/visits"`
	// By is the amount that increment adds; "" is 1. It is not for append. A missing
	// number counts as 0. The sum of integers and decimals of any size is exact; one
	// with more than journal.MaxNumberBytes digits is ErrInvalid.
	By json.Number `json:"by,omitempty" doc:"what increment adds; absent: 1"`
	// Value is what append adds at the end of a list. A missing list counts as empty.
	// It is not for increment.
	Value json.RawMessage `json:"value,omitempty" doc:"what append adds at the end of the list"`
}

// apply returns the document after the change. Exists says whether there was one.
func (op Op) apply(root any, exists bool) (any, error) {
	path, err := parsePointer(op.Path)
	if err != nil {
		return nil, err
	}
	change := func(f func(v any, exists bool) (any, error)) (any, error) {
		if len(path) == 0 {
			return f(root, exists)
		}
		if !exists {
			root = map[string]any{}
		}
		return at(root, path, true, f)
	}
	switch op.Op {
	case "increment":
		if op.Value != nil {
			return nil, invalid("increment %q takes by, not value", op.Path)
		}
		return change(func(v any, exists bool) (any, error) {
			n, isNumber := v.(json.Number)
			if exists && !isNumber {
				return nil, invalid("increment %q: it is not a number", op.Path)
			}
			return sum(n, op.By)
		})
	case "append":
		if op.By != "" {
			return nil, invalid("append to %q takes value, not by", op.Path)
		}
		item, err := decode("value to append", op.Value)
		if err != nil {
			return nil, err
		}
		return change(func(v any, exists bool) (any, error) {
			list, isList := v.([]any)
			if exists && !isList {
				return nil, invalid("append to %q: it is not a list", op.Path)
			}
			return append(list, item), nil
		})
	}
	return nil, invalid("op %.40q is neither increment nor append", op.Op)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{thole.ErrInvalid}, args...)...)
}
