package document

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// Operation is one step of a JSON Patch (RFC 6902). Recorded patches hold only
// add, replace and remove.
type Operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// parsePatch reads a JSON Patch.
func parsePatch(raw json.RawMessage) ([]Operation, error) {
	if err := journal.CheckJSON("patch", raw); err != nil {
		return nil, err
	}
	var steps []struct {
		Operation
		Path *string `json:"path"`
		From *string `json:"from"`
	}
	if err := json.Unmarshal(raw, &steps); err != nil || steps == nil {
		return nil, invalid("a JSON Patch is a list of operations such as {\"op\": \"add\", \"path\": \"/a\", \"value\": 1}")
	}
	ops := make([]Operation, len(steps))
	for i, s := range steps {
		needsFrom := s.Op == "move" || s.Op == "copy"
		needsValue := s.Op == "add" || s.Op == "replace" || s.Op == "test"
		switch {
		case !needsFrom && !needsValue && s.Op != "remove":
			return nil, invalid("operation %d of the patch: op is %.40q", i, s.Op)
		case s.Path == nil, needsFrom && s.From == nil, needsValue && s.Value == nil:
			return nil, invalid("operation %d of the patch: %s lacks path, from or value", i, s.Op)
		}
		ops[i] = s.Operation
		ops[i].Path = *s.Path
		if needsFrom {
			ops[i].From = *s.From
		}
	}
	return ops, nil
}

// patch applies operations to a tree, which it may change, and returns the new root.
// With loose set, it may apply them to a value that the patch was not made for: missing
// parents and members are created, and a missing member counts as removed.
func patch(root any, ops []Operation, loose bool) (any, error) {
	budget := thole.MaxValueBytes
	for i, op := range ops {
		var err error
		if root, err = op.apply(root, loose, &budget); err != nil {
			return nil, fmt.Errorf("operation %d of the patch, %s %.80q: %w", i, op.Op, op.Path, err)
		}
	}
	return root, nil
}

func (op Operation) apply(root any, loose bool, budget *int) (any, error) {
	path, err := parsePointer(op.Path)
	if err != nil {
		return nil, err
	}
	var v any
	switch op.Op {
	case "add", "replace", "test":
		if v, err = parse("value of patch", op.Value); err != nil {
			return nil, err
		}
	case "move", "copy":
		return op.transfer(root, path, budget)
	}
	if op.Op == "test" {
		if is, exists := find(root, path); !exists || !equal(is, v) {
			return nil, fmt.Errorf("%w: the test fails", thole.ErrConflict)
		}
		return root, nil
	}
	return step(root, op.Op, path, v, loose)
}

// transfer moves or copies a value within root.
func (op Operation) transfer(root any, path []string, budget *int) (any, error) {
	from, err := parsePointer(op.From)
	if err != nil {
		return nil, err
	}
	v, exists := find(root, from)
	if !exists {
		return nil, invalid("there is no %.80q", op.From)
	}
	if op.Op == "copy" {
		if v, err = clone(v, budget); err != nil {
			return nil, err
		}
		return step(root, "add", path, v, false)
	}
	if op.Path == op.From {
		return root, nil
	}
	if strings.HasPrefix(op.Path, op.From+"/") {
		return nil, invalid("%.80q cannot move into itself", op.From)
	}
	if root, err = step(root, "remove", from, nil, false); err != nil {
		return nil, err
	}
	return step(root, "add", path, v, false)
}

// step adds, replaces or removes the value at path.
func step(root any, op string, path []string, v any, loose bool) (any, error) {
	if len(path) == 0 {
		return v, nil // removing the root leaves null
	}
	name := path[len(path)-1]
	return at(root, path[:len(path)-1], loose, func(parent any, exists bool) (any, error) {
		switch p := parent.(type) {
		case map[string]any:
			if _, exists := p[name]; !exists && op != "add" && !loose {
				return nil, invalid("there is no %.80q", name)
			}
			if op == "remove" {
				delete(p, name)
			} else {
				p[name] = v
			}
			return p, nil
		case []any:
			return stepInList(p, op, name, v)
		}
		if !exists && loose {
			return map[string]any{name: v}, nil
		}
		return nil, invalid("there is no %.80q in a value that is neither object nor list", name)
	})
}

func stepInList(list []any, op, name string, v any) (any, error) {
	last := len(list) - 1
	if op == "add" {
		if name == "-" {
			return append(list, v), nil
		}
		last++
	}
	i, err := index(name, last)
	if err != nil {
		return nil, err
	}
	switch op {
	case "add":
		return slices.Insert(list, i, v), nil
	case "remove":
		return slices.Delete(list, i, i+1), nil
	}
	list[i] = v
	return list, nil
}
