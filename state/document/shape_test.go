package document_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/statetest"
)

func TestOldDocumentsAreLiftedAndTheirPastToo(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("user:1"), t.Context()
		first, err := document.In(sp).Put(ctx, "settings", map[string]any{"colour": "red", "unknown": 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		schema, err := document.CompileSchema(json.RawMessage(`{"type":"object","required":["theme"],"properties":{"theme":{"enum":["red","blue"]}}}`))
		if err != nil {
			t.Fatal(err)
		}
		docs := document.In(sp).With(map[string]document.Shape{"settings": {
			Version: 2, Schema: schema,
			Upcast: map[int]document.Upcaster{1: func(v json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(strings.Replace(string(v), "colour", "theme", 1)), nil
			}},
		}})
		got, err := docs.Get(ctx, "settings", nil)
		check(t, "read", got, err, `{"theme":"red","unknown":1}`)
		if err := errOf(docs.MergePatch(ctx, "settings", json.RawMessage(`{"theme":"pink"}`), nil)); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("against the schema: got %v, want ErrInvalid", err)
		}
		got, err = docs.MergePatch(ctx, "settings", json.RawMessage(`{"theme":"blue"}`), nil)
		check(t, "changed", got, err, `{"theme":"blue","unknown":1}`)
		raw, err := document.In(sp).Get(ctx, "settings", nil)
		check(t, "stored", raw, err, `{"theme":"blue","unknown":1}`)
		if raw.Schema != 2 {
			t.Errorf("stored with schema version %d, want 2", raw.Schema)
		}
		old, err := docs.Get(ctx, "settings", &document.GetOptions{At: first.Version})
		check(t, "past, lifted", old, err, `{"theme":"red","unknown":1}`)
		older := document.In(sp).With(map[string]document.Shape{"settings": {Version: 1}})
		if err := errOf(older.Put(ctx, "settings", 1, nil)); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("written by an older program: got %v, want ErrInvalid", err)
		}
	})
}

func TestASchemaReadsNothingOutside(t *testing.T) {
	for _, text := range []string{`{"$ref":"file:///etc/passwd"}`, `{"$ref":"http://127.0.0.1:1/x"}`, `{"type":5}`, `[`, `{"pattern":"("}`} {
		if _, err := document.CompileSchema(json.RawMessage(text)); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", text, err)
		}
	}
}
