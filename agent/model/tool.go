package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	invopop "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// NewTool declares a tool whose input is a JSON object with the fields of In, and
// returns with it what reads the input of a call.
//
// The schema is made from In: json tags name the fields, those without omitempty
// are required, jsonschema tags describe them (see github.com/invopop/jsonschema).
// An input that does not fit, unknown fields included, is an error in words that
// let a model mend it. NewTool panics if In has no schema, which is a bug in the
// program.
func NewTool[In any](name, description string) (Tool, func(input json.RawMessage) (In, error)) {
	raw := reflectSchema(new(In))
	schema := compileSchema(name, raw)
	return Tool{Name: name, Description: description, Schema: raw}, func(input json.RawMessage) (in In, err error) {
		return in, decodeInput(schema, input, &in)
	}
}

func reflectSchema(v any) json.RawMessage {
	r := invopop.Reflector{Anonymous: true, DoNotReference: true}
	s := r.Reflect(v)
	s.Version = "" // models want the bare schema
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return data
}

func compileSchema(name string, schema json.RawMessage) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	url := "tool:" + name
	if err := c.AddResource(url, doc); err != nil {
		panic(err)
	}
	return c.MustCompile(url)
}

func decodeInput(schema *jsonschema.Schema, input json.RawMessage, v any) error {
	if len(bytes.TrimSpace(input)) == 0 {
		input = json.RawMessage("{}") // some models send nothing for no arguments
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		return fmt.Errorf("the input is not valid JSON: %w", err)
	}
	if err := schema.Validate(doc); err != nil {
		var invalid *jsonschema.ValidationError
		if !errors.As(err, &invalid) {
			return err
		}
		return fmt.Errorf("the input does not fit the tool's schema: %s", strings.Join(reasons(invalid), "; "))
	}
	if err := json.Unmarshal(input, v); err != nil {
		return fmt.Errorf("the input does not fit the tool's schema: %w", err)
	}
	return nil
}

// reasons are the innermost causes: "at /path: what is wrong".
func reasons(e *jsonschema.ValidationError) []string {
	if len(e.Causes) == 0 {
		text := e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
		if len(e.InstanceLocation) > 0 {
			text = "at " + strings.Join(e.InstanceLocation, "/") + ": " + text
		}
		return []string{text}
	}
	var all []string
	for _, c := range e.Causes {
		all = append(all, reasons(c)...)
	}
	return all
}
