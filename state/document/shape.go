package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/thole-dev/thole/journal"
)

// Shape is what a program expects of a document: a schema, and migrations from earlier
// versions. An old document is migrated when it is read; the next change stores it in
// its new form.
type Shape struct {
	Version int              // the version that this program writes; documents without a Shape have 0
	Schema  *Schema          // nil: anything
	Upcast  map[int]Upcaster // from version n to n+1; a missing function changes nothing
}

// Upcaster migrates a document from one schema version to the next.
type Upcaster func(json.RawMessage) (json.RawMessage, error)

// Schema is a compiled JSON Schema.
type Schema struct{ compiled *jsonschema.Schema }

// CompileSchema compiles a JSON Schema (draft 2020-12 unless it says otherwise), which
// must not refer to anything outside itself. A malformed schema is ErrInvalid.
func CompileSchema(text json.RawMessage) (*Schema, error) {
	if err := journal.CheckJSON("schema", text); err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, invalid("schema: %v", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	const here = "mem:///schema.json"
	if err := c.AddResource(here, doc); err != nil {
		return nil, invalid("schema: %v", err)
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return nil, invalid("schema: %v", err)
	}
	return &Schema{compiled}, nil
}

// noLoader keeps schemas from reading files.
type noLoader struct{}

// Load refuses.
func (noLoader) Load(string) (any, error) { return nil, errors.New("schemas outside are not loaded") }

// lift migrates a stored value to the shape's version. A value that a newer program
// wrote is returned as it is.
func (s Shape) lift(value json.RawMessage, version int) (json.RawMessage, int, error) {
	for ; version < s.Version; version++ {
		up := s.Upcast[version]
		if up == nil {
			continue
		}
		var err error
		if value, err = up(value); err != nil {
			return nil, version, fmt.Errorf("from schema version %d: %w", version, err)
		}
	}
	return value, version, nil
}

// fit checks a new value of a document that had the stored version, and returns the
// version to store.
func (d *Documents) fit(name string, value any, stored int) (int, error) {
	shape, ok := d.shapes[name]
	if !ok {
		return stored, nil
	}
	if stored > shape.Version {
		return 0, invalid("it has schema version %d, this program knows %d", stored, shape.Version)
	}
	if shape.Schema != nil {
		raw, err := encode(value)
		if err == nil {
			err = journal.CheckJSON("value", raw) // before a schema computes with its numbers
		}
		if err != nil {
			return 0, err
		}
		if err := shape.Schema.compiled.Validate(value); err != nil {
			return 0, invalid("%v", err)
		}
	}
	return shape.Version, nil
}
