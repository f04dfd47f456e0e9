package statetest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

// oddNumbers are numbers that floating point, or an engine that parses numbers, would
// change.
var oddNumbers = []string{
	"1e999", "1E400", "1E+400", "-1e-999", "1.0", "1.50", "-0", "-0.0", "0e5", "1e0",
	"9007199254740993", "-9223372036854775809", "18446744073709551616", "1000000000000000000000000000001",
	"0.1000000000000000055511151231257827", "123456789012345678901234567890.123456789012345678901234567890",
	strings.Repeat("9", journal.MaxNumberBytes),
}

// Odd numbers are written wherever JSON is accepted, and read back, also after the
// store was reopened.
func TestNumbersAreKeptDigitForDigit(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx := t.Context()
		value := json.RawMessage(`{"n":[` + strings.Join(oddNumbers, ",") + `]}`)
		twice := json.RawMessage(`{"a":1,"a":1.0,"n":` + string(value) + `}`) // one name twice
		sp := e.Space("project:shop")
		must := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		_, err := sp.Update(ctx, func(tx *thole.Tx) error {
			tx.Emit("app/x", "x.y", twice)
			tx.Put("app/x", twice, nil)
			return nil
		})
		must("commit", err)
		_, err = kv.In(sp).Set(ctx, "n", "k", twice, nil)
		must("kv", err)
		docs := document.In(sp)
		put, err := docs.Put(ctx, "put", value, nil)
		must("put", err)
		_, err = docs.MergePatch(ctx, "merged", value, nil)
		must("merge patch", err)
		_, err = docs.Put(ctx, "patched", json.RawMessage(`{}`), nil)
		must("put", err)
		_, err = docs.JSONPatch(ctx, "patched", json.RawMessage(`[{"op":"add","path":"/n","value":`+string(value[len(`{"n":`):len(value)-1])+`}]`), nil)
		must("JSON patch", err)
		th, err := thread.In(sp).Create(ctx, &thread.CreateOptions{Metadata: map[string]json.RawMessage{"m": value}})
		must("thread", err)
		_, err = thread.In(sp).Append(ctx, th.ID, thread.Message{Role: thread.User, Blocks: []thread.Block{
			{Type: "text", Content: "hi", Meta: map[string]json.RawMessage{"m": value}}}}, nil)
		must("message", err)

		for _, reopened := range []bool{false, true} {
			if reopened {
				e.Reopen()
				sp = e.Space("project:shop")
			}
			same := func(what string, got, want json.RawMessage, err error) {
				t.Helper()
				if err != nil || string(got) != string(want) {
					t.Errorf("%s (reopened: %t): %v\n got %.300s\nwant %.300s", what, reopened, err, got, want)
				}
			}
			page, err := sp.Read(ctx, thole.ReadQuery{Stream: "app/x"})
			must("read", err)
			same("event", page.Events[0].Data, twice, nil)
			rec, err := sp.Get(ctx, "app/x")
			same("record", rec.Value, twice, err)
			entry, err := kv.In(sp).Get(ctx, "n", "k")
			same("kv", entry.Data, twice, err)
			docs := document.In(sp)
			for _, name := range []string{"put", "merged", "patched"} {
				doc, err := docs.Get(ctx, name, nil)
				same("document "+name, doc.Value, value, err)
				past, err := docs.Replay(ctx, name, doc.Version)
				same("replayed document "+name, past.Value, value, err)
			}
			again, err := docs.Put(ctx, "put", value, nil)
			must("put again", err)
			if again.Version != put.Version {
				t.Errorf("the same value again made version %s of %s", again.Version, put.Version)
			}
			got, err := thread.In(sp).Get(ctx, th.ID)
			must("thread", err)
			same("metadata", got.Metadata["m"], value, nil)
			messages, err := thread.In(sp).Messages(ctx, th.ID, nil)
			must("messages", err)
			same("meta of a block", messages.Items[0].Blocks[0].Meta["m"], value, nil)
		}
	})
}

// Computing with such numbers would fill the memory.
func TestNumbersTooLargeToComputeWithAreRefused(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, sp := t.Context(), e.Space("project:shop")
		for _, n := range []string{"1e999999999", "1e-1001", "1E+1001", "-1.5e99999999999999999999999", strings.Repeat("1", journal.MaxNumberBytes+1)} {
			value := json.RawMessage(`{"s":"\\\"1e5000\\","n":[` + n + `]}`)
			_, kvErr := kv.In(sp).Set(ctx, "n", "k", value, nil)
			_, putErr := document.In(sp).Put(ctx, "d", value, nil)
			_, mergeErr := document.In(sp).MergePatch(ctx, "d", value, nil)
			_, patchErr := document.In(sp).JSONPatch(ctx, "d", json.RawMessage(`[{"op":"add","path":"/n","value":`+n+`}]`), nil)
			_, addErr := document.In(sp).Apply(ctx, "d", []document.Op{{Op: "increment", Path: "/n", By: json.Number(n)}}, nil)
			_, rawErr := sp.Commit(ctx, thole.Commit{Events: []thole.Event{{Stream: "app/x", Type: "x.y", Data: value}}})
			for i, err := range []error{kvErr, putErr, mergeErr, patchErr, addErr, rawErr} {
				if !errors.Is(err, thole.ErrInvalid) {
					t.Errorf("%.30s, way %d: got %v, want ErrInvalid", n, i, err)
				}
			}
		}
		text := json.RawMessage(`"1e999999999 \" ` + strings.Repeat("1", 2000) + ` \\"`)
		if _, err := kv.In(sp).Set(ctx, "n", "text", text, nil); err != nil {
			t.Errorf("a number in a text: %v", err)
		}
	})
}

func TestIncrementIsExact(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, docs := t.Context(), document.In(e.Space("project:shop"))
		nines := strings.Repeat("9", 999)
		for i, c := range []struct{ from, by, want string }{
			{"123456789012345678901234567890", "1", "123456789012345678901234567891"},
			{"-18446744073709551616", "1", "-18446744073709551615"},
			{"9007199254740992", "", "9007199254740993"},
			{"0.1", "0.2", "0.3"},
			{"1.50", "1.5", "3"},
			{"1e3", "1", "1001"},
			{"-0", "0", "0"},
			{"0e7", "1e2", "100"},
			{"1E400", "1", "1" + strings.Repeat("0", 399) + "1"},
			{"2.5e-400", "2.5e-400", "5e-400"},
			{"1e-30", "1", "1." + strings.Repeat("0", 29) + "1"},
			{"5", "-2.5", "2.5"},
			{"0.00001", "-1", "-0.99999"},
			{nines, "1", "1" + strings.Repeat("0", 999)},
			{nines + "9", "1", ""},
			{"1e999", "1e-999", ""},
		} {
			name := fmt.Sprint("d", i)
			if _, err := docs.Put(ctx, name, json.RawMessage(`{"n":`+c.from+`}`), nil); err != nil {
				t.Fatal(err)
			}
			got, err := docs.Apply(ctx, name, []document.Op{{Op: "increment", Path: "/n", By: json.Number(c.by)}}, nil)
			switch {
			case c.want == "" && !errors.Is(err, thole.ErrInvalid):
				t.Errorf("%.40s + %s: got %.60s, %v; want ErrInvalid", c.from, c.by, got.Value, err)
			case c.want != "" && (err != nil || string(got.Value) != `{"n":`+c.want+`}`):
				t.Errorf("%.40s + %s: got %.60s, %v; want %.60s", c.from, c.by, got.Value, err, c.want)
			}
		}
	})
}

func TestAPatchTestsNumbersByTheirExactValue(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, docs := t.Context(), document.In(e.Space("project:shop"))
		for _, c := range []struct {
			is, test string
			same     bool
		}{
			{"1", "1.0", true}, {"100", "1e2", true}, {"-0", "0", true}, {"1e999", "10E998", true},
			{"9007199254740993", "9007199254740992", false}, {"9007199254740993.0", "9007199254740993", true},
			{"1e999", "1e998", false}, {"0.1", "0.1000000000000000055511151231257827", false}, {"1", "-1", false},
		} {
			if _, err := docs.Put(ctx, "d", json.RawMessage(`{"n":`+c.is+`}`), nil); err != nil {
				t.Fatal(err)
			}
			_, err := docs.JSONPatch(ctx, "d", json.RawMessage(`[{"op":"test","path":"/n","value":`+c.test+`}]`), nil)
			if c.same && err != nil || !c.same && !errors.Is(err, thole.ErrConflict) {
				t.Errorf("%s against %s: got %v, want same %t", c.is, c.test, err, c.same)
			}
		}
	})
}
