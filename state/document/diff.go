package document

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// replaceAll returns the patch that replaces the whole value.
func replaceAll(value json.RawMessage) []Operation {
	return []Operation{{Op: "replace", Value: value}}
}

// smaller returns whole if that takes less to store than ops, else ops.
func smaller(ops, whole []Operation) []Operation {
	size := 0
	for _, op := range ops {
		size += len(op.Op) + len(op.Path) + len(op.Value) + 26 // names and punctuation
	}
	if size > len(whole[0].Value)+40 {
		return whole
	}
	return ops
}

// diff returns the operations that turn a into b; none if they are equal. The result is
// exact, not minimal: in a list, the items between a common start and a common end are
// changed one by one.
func diff(a, b any) []Operation {
	var ops []Operation
	differences(&ops, "", a, b)
	return ops
}

func differences(ops *[]Operation, path string, a, b any) {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			diffObjects(ops, path, a, b)
			return
		}
	case []any:
		if b, ok := b.([]any); ok {
			diffLists(ops, path, a, b)
			return
		}
	}
	if !reflect.DeepEqual(a, b) {
		set(ops, "replace", path, b)
	}
}

func set(ops *[]Operation, op, path string, v any) {
	raw, err := encode(v)
	if err != nil {
		panic("document: a tree that came from JSON is not JSON: " + err.Error())
	}
	*ops = append(*ops, Operation{Op: op, Path: path, Value: raw})
}

func diffObjects(ops *[]Operation, path string, a, b map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if now, ok := b[name]; ok {
			differences(ops, pointerTo(path, name), a[name], now)
		} else {
			*ops = append(*ops, Operation{Op: "remove", Path: pointerTo(path, name)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[name]; !ok {
			set(ops, "add", pointerTo(path, name), b[name])
		}
	}
}

func diffLists(ops *[]Operation, path string, a, b []any) {
	start := 0
	for start < min(len(a), len(b)) && reflect.DeepEqual(a[start], b[start]) {
		start++
	}
	end := 0
	for end < min(len(a), len(b))-start && reflect.DeepEqual(a[len(a)-1-end], b[len(b)-1-end]) {
		end++
	}
	i := start
	for ; i < min(len(a), len(b))-end; i++ {
		differences(ops, path+"/"+strconv.Itoa(i), a[i], b[i])
	}
	for j := len(a) - end - 1; j >= i; j-- {
		*ops = append(*ops, Operation{Op: "remove", Path: path + "/" + strconv.Itoa(j)})
	}
	for ; i < len(b)-end; i++ {
		set(ops, "add", path+"/"+strconv.Itoa(i), b[i])
	}
}
