package document

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/thole-dev/thole"
)

// Op is a change that is computed in the store, from the value as it is then.
type Op struct {
	Op   string `json:"op"`   // "increment" or "append"
	Path string `json:"path"` // JSON Pointer (RFC 6901); objects on the way are made as needed
	// By is what increment adds; "" is 1. A missing number counts as 0. Integers
	// stay exact; a result beyond ±2⁵³ is ErrInvalid.
	By json.Number `json:"by,omitempty"`
	// Value is what append adds to the end of a list. A missing list is empty.
	Value json.RawMessage `json:"value,omitempty"`
}

func (op Op) apply(root any) (any, error) {
	path, err := parsePointer(op.Path)
	if err != nil {
		return nil, err
	}
	switch op.Op {
	case "increment":
		return at(root, path, true, func(v any, exists bool) (any, error) {
			n, isNumber := v.(json.Number)
			if exists && !isNumber {
				return nil, invalid("increment %q: it is not a number", op.Path)
			}
			return sum(n, op.By)
		})
	case "append":
		item, err := decode("value to append", op.Value)
		if err != nil {
			return nil, err
		}
		return at(root, path, true, func(v any, exists bool) (any, error) {
			list, isList := v.([]any)
			if exists && !isList {
				return nil, invalid("append to %q: it is not a list", op.Path)
			}
			return append(list, item), nil
		})
	}
	return nil, invalid("op %.40q is neither increment nor append", op.Op)
}

// sum adds two JSON numbers: exactly if both are integers, else as float64.
func sum(a, by json.Number) (json.Number, error) {
	if a == "" {
		a = "0"
	}
	if by == "" {
		by = "1"
	}
	// 20 characters hold every integer up to 2⁵³ and bound the work.
	if len(a) <= 20 && len(by) <= 20 {
		x, okX := new(big.Int).SetString(string(a), 10)
		y, okY := new(big.Int).SetString(string(by), 10)
		if okX && okY {
			if x.Add(x, y).CmpAbs(big.NewInt(1<<53)) > 0 {
				return "", invalid("%s + %s is beyond ±2⁵³", a, by)
			}
			return json.Number(x.String()), nil
		}
	}
	x, errX := a.Float64()
	y, errY := by.Float64()
	if errX != nil || errY != nil || math.IsInf(x+y, 0) || math.IsNaN(x+y) {
		return "", invalid("%.40s + %.40s is not a number", a, by)
	}
	return json.Number(strconv.FormatFloat(x+y, 'g', -1, 64)), nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{thole.ErrInvalid}, args...)...)
}
