package agent

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

func TestAnInputThatDoesNotFitIsToldInWords(t *testing.T) {
	type input struct {
		Path  string `json:"path"`
		Count int    `json:"count,omitempty"`
	}
	ran := false
	tool := NewTool("Try", "", func(context.Context, *Context, *Call, input) (Output, error) {
		ran = true
		return Output{}, nil
	}, nil)
	for in, want := range map[string]string{
		``:                            "missing property 'path'",
		`{"path": 3}`:                 "at path: got number, want string",
		`{"path": "x", "nope": true}`: "'nope'",
		`{"path": "x", "count": "1"}`: "at count",
		`{"path"`:                     "not valid JSON",
		`[]`:                          "want object",
	} {
		_, err := tool.run(t.Context(), nil, &Call{Input: json.RawMessage(in)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", in, err, want)
		}
	}
	if ran {
		t.Error("the tool ran on an input that does not fit")
	}
	if _, err := tool.run(t.Context(), nil, &Call{Input: json.RawMessage(`{"path":"x"}`)}); err != nil || !ran {
		t.Errorf("a good input: %v, ran %v", err, ran)
	}
}
