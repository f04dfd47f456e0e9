package thole_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/thole-dev/thole"
)

func everyone(context.Context, *thole.Space, string) (bool, error) { return true, nil }

// notes is a concept of notes, each on other records that its value names.
func notes() *thole.Concept {
	of := func(value json.RawMessage) (keys []string, err error) {
		err = json.Unmarshal(value, &keys)
		return keys, err
	}
	return &thole.Concept{
		Name: "note",
		Events: []thole.EventType{
			{Type: "note.made", About: "x", Streams: []string{"note"}, Of: of},
			{Type: "note.seen", About: "x", Streams: []string{"note"}},
			{Type: "note.counted", About: "x", Streams: []string{"note"}, Private: true},
			{Type: "note.pinned", About: "x", Streams: []string{"thread/{thread}", "board/{name}/{thread}", "shelf/{thread}/book/{name}"}, ChangesMayKnow: true},
		},
		Records: []thole.RecordType{
			{Key: "thread/{thread}", ID: "thrd", MayKnow: everyone},
			{Key: "thread/{thread}/pin"},
			{Key: "note/{note}", ID: "note", Of: of},
			{Key: "note/{note}/answer/{answer}"},
			{Key: "note/{note}/draft", Private: true},
			{Key: "board/{name}"},
		},
	}
}

func TestWhatBelongsToWhichThreadFollowsFromTheDeclarations(t *testing.T) {
	cs, err := thole.NewConcepts(notes())
	if err != nil {
		t.Fatal(err)
	}
	const unknown = "?"
	for stream, want := range map[string]string{
		"thread/t1": "t1", "board/b/t1": "t1", "app/thread/t1": "t1", "app/thread/t1/x/y": "t1",
		"note": "", "app/x": "", "app/threads/t1": "",
		"thread/t1/x": unknown, "thread": unknown, "app/thread": unknown, "other": unknown, "outbox/m": unknown, "board/b": unknown,
	} {
		got, known := cs.StreamThread(stream)
		if !known {
			got = unknown
		}
		if got != want {
			t.Errorf("the stream %s belongs to %q, want %q", stream, got, want)
		}
	}
	if got := fmt.Sprint(cs.StreamsOf("t1")); got != "[shelf/t1/book/* thread/t1]" {
		t.Errorf("the streams of a thread are %s", got)
	}
	for _, tt := range []struct{ stream, typ, data, want string }{
		{"note", "note.made", `["thread/t1","note/n1"]`, "[thread/t1 note/n1]"}, {"note", "note.made", `1`, unknown},
		{"note", "note.made", ``, "[]"}, {"note", "note.seen", `["thread/t1"]`, "[]"}, {"note", "note.other", `{}`, unknown}, {"note", "note.counted", `{}`, unknown}, {"app/x", "note.made", `1`, "[]"},
	} {
		e := thole.Event{Stream: tt.stream, Type: tt.typ}
		if tt.data != "" {
			e.Data = json.RawMessage(tt.data)
		}
		of, known := cs.EventOf(&e)
		got := fmt.Sprint(of)
		if !known {
			got = unknown
		}
		if got != tt.want {
			t.Errorf("%s %s belongs to %s, want %s", tt.typ, tt.data, got, tt.want)
		}
	}
	values := map[string]string{
		"note/free": `[]`, "note/n1": `["thread/t1"]`, "note/n2": `["note/n1","thread/t2"]`, "note/bad": `1`, "note/self": `["note/self"]`,
		"note/lost": `["note/none"]`, "note/odd": `["odd"]`,
	}
	get := func(key string) (thole.Record, error) {
		rec := thole.Record{Key: key}
		if v, ok := values[key]; ok {
			rec.Value, rec.Version = json.RawMessage(v), thole.Position{Epoch: "0001deadbeef", Seq: 1}
		}
		return rec, nil
	}
	for key, want := range map[string]string{
		"thread/t1": "[t1]", "thread/t1/pin": "[t1]", "board/b": "[]", "note/free": "[]", "note/n1": "[t1]", "note/n2": "[t1 t2]",
		"note/n1/answer/a": "[t1]", "note/n1/draft": unknown, "note/bad": unknown, "note/self": unknown, "note/lost": unknown,
		"note/odd": unknown, "note/none": unknown, "other/x": unknown, "": unknown, "thread/t1/other": unknown, "outbox/m": unknown,
	} {
		threads, err := cs.ThreadsOf(key, get)
		slices.Sort(threads)
		got := fmt.Sprint(threads)
		if err != nil {
			got = unknown
		}
		if got != want {
			t.Errorf("%s belongs to %s, %v, want %s", key, got, err, want)
		}
	}
	if _, err := cs.ThreadsOf("note/none", get); !errors.Is(err, thole.ErrNotFound) {
		t.Errorf("the threads of a record that does not exist: %v", err)
	}
	for id, want := range map[string]string{"thrd_1": "thread/thrd_1", "note_1": "note/note_1", "pin_1": "", "note": "", "": ""} {
		if got := cs.KeyOfID(id); got != want {
			t.Errorf("the key of %s is %q, want %q", id, got, want)
		}
	}
	if got := fmt.Sprint(cs.IDPrefixes(), cs.MayKnowTypes()); got != "[note thrd] [note.pinned]" {
		t.Errorf("got %s", got)
	}
}

func TestNobodyMayKnowOfThreadsThatNoConceptDeclares(t *testing.T) {
	cs, err := thole.NewConcepts()
	if err != nil {
		t.Fatal(err)
	}
	if may, err := cs.MayKnow(t.Context(), nil, "t1"); may || err != nil {
		t.Errorf("got %t, %v", may, err)
	}
}
