package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	invopop "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Tool is something that a model can call. Make one with [NewTool].
type Tool struct {
	Name        string
	Description string          // for the model
	Schema      json.RawMessage // JSON Schema of the input
	// ReadOnly tools have no effect: calls of them that follow each other run
	// side by side. All others run one at a time, in the order the model asked.
	ReadOnly bool

	run func(ctx context.Context, c *Context, call *Call) (Output, error)
}

// Call is one call of a tool by a model.
type Call struct {
	ID    string          // of its block in the thread, and of the operation in its events
	Name  string          // the tool's
	Input json.RawMessage // as the model wrote it
}

// Output is what a tool call came to.
type Output struct {
	Text string         // for the model, and the block's result
	Meta map[string]any // facts for screens, in the block's meta: file_path, exit_code, …
}

// ToolOptions change [NewTool]. The zero value is the default.
type ToolOptions struct {
	ReadOnly bool // see [Tool]
}

// NewTool returns a tool whose input is a JSON object with the fields of In.
// The schema follows from In: json tags name the fields, those without
// omitempty are required, jsonschema tags describe them (see
// github.com/invopop/jsonschema). An input that does not fit, unknown fields
// included, is told to the model and run is not called.
//
// An error of run is told to the model as the call's result, and the run goes
// on; only the end of ctx ends it. A tool must stop when ctx does, and must
// not begin an effect after it.
//
// It panics if In has no schema, which is a bug in the program.
func NewTool[In any](name, description string, run func(ctx context.Context, c *Context, call *Call, in In) (Output, error), o *ToolOptions) Tool {
	t := Tool{Name: name, Description: description, Schema: reflectSchema(new(In))}
	if o != nil {
		t.ReadOnly = o.ReadOnly
	}
	schema := compileSchema(name, t.Schema)
	t.run = func(ctx context.Context, c *Context, call *Call) (Output, error) {
		var in In
		if err := decodeInput(schema, call.Input, &in); err != nil {
			return Output{}, err
		}
		return run(ctx, c, call, in)
	}
	return t
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

// decodeInput reads a tool's input. What is wrong with it is said in words that
// let a model mend it.
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
