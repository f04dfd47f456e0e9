package document_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/statetest"
)

func TestMain(m *testing.M) { statetest.Main(m) }

func errOf[T any](_ T, err error) error { return err }

// check compares a document with the wanted one.
func check(t *testing.T, what string, got document.Document, err error, want string) {
	t.Helper()
	if err != nil || string(got.Value) != want || got.Exists != (want != "") {
		t.Errorf("%s: got %s (exists %v, %v), want %s", what, got.Value, got.Exists, err, want)
	}
}

func TestContendedIncrementsLoseNothing(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		docs := document.In(sp)
		const clients, each = 32, 25
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for range each {
					if _, err := docs.Apply(ctx, "n", []document.Op{{Op: "increment", Path: "/a/b"}}, nil); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		got, err := docs.Get(ctx, "n", nil)
		check(t, "in the end", got, err, `{"a":{"b":800}}`)
		n := 0
		for ev, err := range sp.Events(ctx, thole.ReadQuery{Stream: "document/n"}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n > 1 && len(ev.Data) > 300 {
				t.Fatalf("a change of one field is an event of %d bytes: %s", len(ev.Data), ev.Data)
			}
		}
		if n != clients*each {
			t.Errorf("got %d events, want %d", n, clients*each)
		}
	})
}

func TestAnOpOnTheWholeDocumentMakesOneThatIsAbsent(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		docs, ctx := document.In(e.Space("project:shop")), t.Context()
		up, add := document.Op{Op: "increment", By: "2"}, document.Op{Op: "append", Value: json.RawMessage("1")}
		for _, want := range []string{"4", "8"} {
			got, err := docs.Apply(ctx, "number", []document.Op{up, up}, nil)
			check(t, "increment", got, err, want)
		}
		got, err := docs.Apply(ctx, "list", []document.Op{add, add}, nil)
		check(t, "append", got, err, "[1,1]")
		got, err = docs.Apply(ctx, "object", []document.Op{{Op: "increment", Path: "/a"}, {Op: "append", Path: "/b/c", Value: add.Value}}, nil)
		check(t, "below", got, err, `{"a":1,"b":{"c":[1]}}`)
		got, err = docs.Apply(ctx, "none", nil, nil)
		check(t, "no ops", got, err, `{}`)
		if err := errOf(docs.Apply(ctx, "list", []document.Op{up}, nil)); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("increment of a list: got %v, want ErrInvalid", err)
		}
	})
}

func TestChangesOfAllKindsMeetInOneDocument(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		docs, ctx := document.In(e.Space("project:shop")), t.Context()
		got, err := docs.Put(ctx, "d", map[string]any{"a": 1, "list": []int{1}, "x": "<b>"}, &document.Options{IfAbsent: true})
		check(t, "put", got, err, `{"a":1,"list":[1],"x":"<b>"}`)
		first := got
		got, err = docs.MergePatch(ctx, "d", json.RawMessage(`{"x":null,"y":{"z":null,"w":1}}`), nil)
		check(t, "merge patch", got, err, `{"a":1,"list":[1],"y":{"w":1}}`)
		got, err = docs.JSONPatch(ctx, "d", json.RawMessage(`[{"op":"test","path":"/a","value":1.0},{"op":"move","from":"/y/w","path":"/list/0"}]`), nil)
		check(t, "json patch", got, err, `{"a":1,"list":[1,1],"y":{}}`)
		got, err = docs.Apply(ctx, "d", []document.Op{{Op: "append", Path: "/list", Value: json.RawMessage(`{"k":null}`)}, {Op: "increment", Path: "/a", By: "-2.5"}}, nil)
		check(t, "ops", got, err, `{"a":-1.5,"list":[1,1,{"k":null}],"y":{}}`)
		got, err = document.Edit(ctx, docs, "d", nil, func(v *struct {
			A     float64        `json:"a"`
			Extra map[string]int `json:"extra"`
		}) error {
			v.A, v.Extra = 2, map[string]int{"n": 1}
			return nil
		})
		check(t, "edit of known fields", got, err, `{"a":2,"extra":{"n":1},"list":[1,1,{"k":null}],"y":{}}`)
		again, err := docs.Put(ctx, "d", got.Value, nil)
		if err != nil || again.Version != got.Version {
			t.Errorf("a change that changes nothing: got version %s, %v; want %s", again.Version, err, got.Version)
		}
		read, err := docs.Get(ctx, "d", nil)
		if err != nil || read.Version != got.Version || string(read.Value) != string(got.Value) {
			t.Errorf("read back: got %+v, %v; want %+v", read, err, got)
		}
		var conflict *thole.ConflictError
		err = errOf(docs.Put(ctx, "d", 1, &document.Options{IfMatch: first.Version}))
		if !errors.As(err, &conflict) || conflict.Actual != got.Version {
			t.Errorf("put over another version: got %v, want a conflict with %s", err, got.Version)
		}
		if err := errOf(docs.Put(ctx, "d", 1, &document.Options{IfAbsent: true})); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("put if absent: got %v, want ErrConflict", err)
		}
	})
}

func TestIntegersStayExact(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		docs, ctx := document.In(e.Space("project:shop")), t.Context()
		const near = `{"n":9007199254740991}`
		if _, err := docs.Put(ctx, "d", json.RawMessage(near), nil); err != nil {
			t.Fatal(err)
		}
		one := []document.Op{{Op: "increment", Path: "/n"}}
		got, err := docs.Apply(ctx, "d", one, nil)
		check(t, "2⁵³−1 + 1", got, err, `{"n":9007199254740992}`)
		got, err = docs.Apply(ctx, "d", one, nil)
		check(t, "2⁵³ + 1", got, err, `{"n":9007199254740993}`)
	})
}

func TestBadPatchesChangeNothing(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		docs, ctx := document.In(e.Space("project:shop")), t.Context()
		const value = `[{"a":[1,2]},null,"s"]`
		if _, err := docs.Put(ctx, "d", json.RawMessage(value), nil); err != nil {
			t.Fatal(err)
		}
		double := strings.Repeat(`{"op":"copy","from":"","path":"/-"},`, 30)
		for patch, want := range map[string]error{
			`[{"op":"remove","path":"/1"},{"op":"test","path":"/0/a/0","value":2}]`: thole.ErrConflict,
			`[{"op":"test","path":"","value":null}]`:                                thole.ErrConflict,
			`[{"op":"test","path":"/0/x","value":null}]`:                            thole.ErrConflict,
			`[{"op":"remove","path":"/0/x"}]`:                                       thole.ErrInvalid,
			`[{"op":"replace","path":"/0/x","value":1}]`:                            thole.ErrInvalid,
			`[{"op":"add","path":"/0/x/y","value":1}]`:                              thole.ErrInvalid,
			`[{"op":"add","path":"/9","value":1}]`:                                  thole.ErrInvalid,
			`[{"op":"add","path":"/-1","value":1}]`:                                 thole.ErrInvalid,
			`[{"op":"add","path":"/00","value":1}]`:                                 thole.ErrInvalid,
			`[{"op":"add","path":"/2/x","value":1}]`:                                thole.ErrInvalid,
			`[{"op":"move","from":"/0","path":"/0/a/0"}]`:                           thole.ErrInvalid,
			`[{"op":"add","path":"x","value":1}]`:                                   thole.ErrInvalid,
			`[{"op":"add","path":"/0/x"}]`:                                          thole.ErrInvalid,
			`[{"op":"copy","path":"/0/x"}]`:                                         thole.ErrInvalid,
			`[{"op":"increment","path":"/0/a/0","value":1}]`:                        thole.ErrInvalid,
			`[null]`: thole.ErrInvalid,
			`null`:   thole.ErrInvalid,
			`{}`:     thole.ErrInvalid,
			`[`:      thole.ErrInvalid,
			`[` + strings.TrimSuffix(double, ",") + `]`:                                             thole.ErrTooLarge,
			`[{"op":"add","path":"/-","value":` + strings.Repeat("[", 10_000) + "]":                 thole.ErrInvalid,
			`[{"op":"add","path":"` + strings.Repeat("/0", 10_000) + `","value":1}]`:                thole.ErrInvalid,
			`[{"op":"add","path":"/-","value":"` + strings.Repeat("x", thole.MaxValueBytes) + `"}]`: thole.ErrTooLarge,
		} {
			if err := errOf(docs.JSONPatch(ctx, "d", json.RawMessage(patch), nil)); !errors.Is(err, want) {
				t.Errorf("%.100s: got %v, want %v", patch, err, want)
			}
		}
		for _, op := range []document.Op{
			{Op: "increment", Path: "/2"}, {Op: "increment", Path: "/0/a/0", By: "x"}, {Op: "increment", Path: ""},
			{Op: "append", Path: "/0"}, {Op: "append", Path: "/0/a"}, {Op: "multiply", Path: "/0/a/0"},
			{Op: "increment", Path: "/0/a/0", By: "1e1001"},
			{Op: "increment", Path: "/0/a/0", Value: json.RawMessage("1")}, {Op: "append", Path: "", By: "1", Value: json.RawMessage("1")},
		} {
			if err := errOf(docs.Apply(ctx, "d", []document.Op{op}, nil)); !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("%+v: got %v, want ErrInvalid", op, err)
			}
		}
		got, err := docs.Get(ctx, "d", nil)
		check(t, "afterwards", got, err, value)
		if err := errOf(docs.JSONPatch(ctx, "none", json.RawMessage(`[]`), nil)); !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("no document: got %v, want ErrNotFound", err)
		}
		if err := errOf(docs.Put(ctx, strings.Repeat("x", 240), 1, nil)); !errors.Is(err, thole.ErrTooLarge) {
			t.Errorf("long name: got %v, want ErrTooLarge", err)
		}
		if err := errOf(docs.Put(ctx, "", 1, nil)); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("no name: got %v, want ErrInvalid", err)
		}
	})
}

// The examples of RFC 7396, appendix A.
func TestMergePatchIsRFC7396(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		docs, ctx := document.In(e.Space("project:shop")), t.Context()
		for _, c := range [][3]string{
			{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`}, {`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
			{`{"a":"b"}`, `{"a":null}`, `{}`}, {`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
			{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`}, {`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
			{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`}, {`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
			{`["a","b"]`, `["c","d"]`, `["c","d"]`}, {`{"a":"b"}`, `["c"]`, `["c"]`}, {`{"a":"foo"}`, `null`, `null`},
			{`{"a":"foo"}`, `"bar"`, `"bar"`}, {`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`}, {`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
			{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		} {
			if _, err := docs.Put(ctx, "d", json.RawMessage(c[0]), nil); err != nil {
				t.Fatal(err)
			}
			got, err := docs.MergePatch(ctx, "d", json.RawMessage(c[1]), nil)
			check(t, fmt.Sprint(c), got, err, c[2])
		}
	})
}

func TestDocumentsUnderARecordGoWithIt(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		state := document.Under(sp, "thread/thrd_1", "thread/thrd_1")
		if err := errOf(state.Put(ctx, "state", 1, nil)); !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("put without the owner: got %v, want ErrNotFound", err)
		}
		write := func(fn func(tx *thole.Tx)) {
			t.Helper()
			if _, err := sp.Update(ctx, func(tx *thole.Tx) error { fn(tx); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		write(func(tx *thole.Tx) { tx.Put("thread/thrd_1", 1, nil) })
		first, err := state.Put(ctx, "state", map[string]int{"n": 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if rec, _ := sp.Get(ctx, "thread/thrd_1/state"); rec.Version != first.Version {
			t.Errorf("the record has version %s, want %s", rec.Version, first.Version)
		}
		if _, err := state.Put(ctx, "state", map[string]int{"n": 2}, nil); err != nil {
			t.Fatal(err)
		}
		old, err := state.Get(ctx, "state", &document.GetOptions{At: first.Version})
		check(t, "at the first version", old, err, `{"n":1}`)
		write(func(tx *thole.Tx) { tx.Delete("thread/thrd_1") })
		if err := sp.DeleteBelow(ctx, "thread/thrd_1"); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"get": errOf(state.Get(ctx, "state", nil)),
			"put": errOf(state.Put(ctx, "state", 1, nil)),
		} {
			if !errors.Is(err, thole.ErrNotFound) {
				t.Errorf("%s without the owner: got %v, want ErrNotFound", what, err)
			}
		}
	})
}

func TestRepeatUnderIdempotencyKeyGetsTheFirstResult(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		docs := document.In(e.Space("project:shop"))
		inc := func(key string) document.Document {
			t.Helper()
			ctx := thole.WithIdempotencyKey(t.Context(), key, "f")
			doc, err := docs.Apply(ctx, "n", []document.Op{{Op: "increment", Path: "/n"}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return doc
		}
		first := inc("a")
		inc("b")
		if again := inc("a"); again.Version != first.Version || string(again.Value) != string(first.Value) {
			t.Errorf("repeat: got %+v, want %+v", again, first)
		}
	})
}

func TestListsNameEveryDocumentOnce(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		docs, ctx := document.In(e.Space("project:shop")), t.Context()
		want := map[string]bool{"a": true, "a/b": true, "a-b": true, "é": true, "..": true}
		for name := range want {
			for i := range 3 {
				if _, err := docs.Put(ctx, name, strings.Repeat("x", 5000+i), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		for opts := (document.ListOptions{Limit: 2}); ; {
			page, err := docs.List(ctx, &opts)
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range page.Items {
				if !want[info.Name] {
					t.Errorf("%q is listed twice, or does not exist", info.Name)
				}
				delete(want, info.Name)
			}
			if opts.After = page.Next; page.Next == "" {
				break
			}
		}
		if len(want) > 0 {
			t.Errorf("not listed: %v", want)
		}
	})
}
