package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var at = journal.Position{Epoch: "0001aaaaaaaa", Seq: 7}

// fullRequest returns a request with every field set.
func fullRequest() *Request {
	e := journal.Event{Position: at, Stream: "s", Type: "a.b", Time: time.Unix(1, 2000).UTC(), Actor: "x", Cause: "y", Subject: "z",
		Refs: []string{"", "r"}, Schema: 3, Data: json.RawMessage(" {\"n\" : \"\xff\n\"} ")}
	bare := journal.Event{Stream: "s", Type: "a.b"}
	return &Request{
		Space: "user:1", Names: []string{"", "<&>\u2028"},
		Batch: []journal.Commit{{
			Space: "user:1", Now: time.Unix(5, 0).UTC(), Actor: "x", Cause: "y", Checks: []journal.Check{{Key: "k"}, {Stream: "s", At: at}},
			Events: []journal.Event{e, bare}, Writes: []journal.Write{{Key: "k"}, {Key: "l", Value: json.RawMessage(`null`), Schema: 1, Expires: time.Unix(9, 0).UTC(), Notify: true}},
		}, {Space: "user:2"}},
		List:       journal.ListQuery{Prefix: "p/", After: "p/a", Limit: 3, DueBy: time.Unix(1, 0).UTC()},
		Read:       journal.ReadQuery{Stream: "s", After: at, Before: at, Backward: true, Limit: 4, Types: []string{"a.*"}, Actor: "x", Subject: "z", Since: time.Unix(1, 0).UTC(), Until: time.Unix(2, 0).UTC()},
		Spaces:     journal.SpacesQuery{After: "a", Limit: 5, DueBy: time.Unix(1, 0).UTC()},
		Purge:      journal.Purge{All: true, Before: at, Streams: []string{"s"}, UpTo: at, Events: []journal.Position{at}},
		Chunk:      journal.Chunk{Head: journal.Head{Space: "user:1", Oldest: at, Last: at, Epochs: []journal.Epoch{{Name: at.Epoch, First: 1, Last: 7}}}, Events: []journal.Event{e}, Records: []journal.Record{{Key: "k", Value: json.RawMessage(`[ ]`), Version: at, Updated: time.Unix(3, 0).UTC()}}, Done: true},
		Broadcasts: []journal.Broadcast{{Origin: "o", Space: "user:1", Event: e}},
	}
}

func fullAnswer() *Answer {
	r := fullRequest()
	return &Answer{
		Results: []journal.Result{{First: at, Last: at}, {Conflict: &journal.ConflictError{Space: "user:1", Check: journal.Check{Key: "k", At: at}, Actual: at, Expired: true}}},
		Records: append(r.Chunk.Records, journal.Record{}), Page: journal.Page{Events: r.Chunk.Events, Next: at},
		Heads: []journal.Head{r.Chunk.Head}, Names: r.Names,
	}
}

func encoded(t testing.TB, m interface{ Encode() ([]byte, error) }) []byte {
	t.Helper()
	data, err := m.Encode()
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return data
}

func TestAMessageKeepsEveryByte(t *testing.T) {
	req, err := DecodeRequest(encoded(t, fullRequest()))
	if err != nil || !reflect.DeepEqual(req, fullRequest()) {
		t.Errorf("request: %v\ngot  %+v\nwant %+v", err, req, fullRequest())
	}
	a, err := DecodeAnswer(encoded(t, fullAnswer()))
	if err != nil || !reflect.DeepEqual(a, fullAnswer()) {
		t.Errorf("answer: %v\ngot  %+v\nwant %+v", err, a, fullAnswer())
	}
}

// In Go a zero time means that there is none, so the record would stay.
func TestAnExpiryOfTheYear1IsRefused(t *testing.T) {
	at := time.Unix(9, 0).UTC()
	for _, zero := range []string{"0001-01-01T00:00:00Z", "0001-01-01T01:00:00+01:00"} {
		for what, r := range map[string]*Request{
			"write":  {Batch: []journal.Commit{{Writes: []journal.Write{{Key: "k", Expires: at}}}}},
			"record": {Chunk: journal.Chunk{Records: []journal.Record{{Key: "k", Expires: at}}}},
		} {
			data := encoded(t, r)
			if _, err := DecodeRequest(data); err != nil {
				t.Fatal(err)
			}
			data = bytes.Replace(data, []byte(at.Format(time.RFC3339)), []byte(zero), 1)
			if _, err := DecodeRequest(data); !errors.Is(err, journal.ErrInvalid) || !strings.Contains(err.Error(), "expires") {
				t.Errorf("%s that expires %s: got %v, want ErrInvalid of expires", what, zero, err)
			}
		}
	}
}

func TestWhatAMessageCannotHoldIsRefused(t *testing.T) {
	for name, r := range map[string]*Request{
		"space":       {Space: "user:\xff"},
		"name":        {Names: []string{"\xc3"}},
		"event":       {Batch: []journal.Commit{{Events: []journal.Event{{Stream: "\xff"}}}}},
		"ref":         {Batch: []journal.Commit{{Events: []journal.Event{{Refs: []string{"\xff"}}}}}},
		"check":       {Batch: []journal.Commit{{Checks: []journal.Check{{Key: "\xff"}}}}},
		"write":       {Batch: []journal.Commit{{Writes: []journal.Write{{Key: "\xff"}}}}},
		"empty value": {Batch: []journal.Commit{{Writes: []journal.Write{{Key: "k", Value: json.RawMessage{}}}}}},
		"year":        {Batch: []journal.Commit{{Now: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}}},
		"prefix":      {List: journal.ListQuery{Prefix: "\xc3", After: "\xa4"}},
		"types":       {Read: journal.ReadQuery{Types: []string{"\xff"}}},
		"purge":       {Purge: journal.Purge{Streams: []string{"\xff"}}},
	} {
		if _, err := r.Encode(); !errors.Is(err, journal.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add(encoded(f, fullRequest()))
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"batch":[{"events":[{"bytes":3}],"writes":[{"key":"k","bytes":-1}]}]}` + "\n123"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeRequest(data)
		if err != nil {
			if !errors.Is(err, journal.ErrInvalid) {
				t.Errorf("got %v, want ErrInvalid", err)
			}
			return
		}
		again, err := DecodeRequest(encoded(t, r))
		if err != nil || !bytes.Equal(encoded(t, again), encoded(t, r)) {
			t.Errorf("decoded again: got %+v, %v; want %+v", again, err, r)
		}
	})
}

func FuzzDecodeAnswer(f *testing.F) {
	f.Add(encoded(f, fullAnswer()))
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"records":[{"bytes":2}],"page":{"events":[{"bytes":9}]}}` + "\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := DecodeAnswer(data)
		if err != nil {
			if !errors.Is(err, journal.ErrCorrupt) {
				t.Errorf("got %v, want ErrCorrupt", err)
			}
			return
		}
		if len(a.Page.Events) == 0 {
			a.Page.Events = nil // an empty list is the same as none
		}
		again, err := DecodeAnswer(encoded(t, a))
		if err != nil || !bytes.Equal(encoded(t, again), encoded(t, a)) {
			t.Errorf("decoded again: got %+v, %v; want %+v", again, err, a)
		}
	})
}

func FuzzReadStream(f *testing.F) {
	frames, err := AppendEvent(nil, EventWake, "user:1")
	if err == nil {
		frames, err = AppendEvent(frames, EventBroadcast, fullRequest().Broadcasts[0].Space)
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Add(frames)
	f.Add([]byte(": hello\n\n\nevent\ndata\n\ndata:x\ndata: y\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		type frame struct{ event, data string }
		var got []frame
		err := readStream(bytes.NewReader(data), func() {}, func(event string, data []byte) error {
			got = append(got, frame{event, string(data)})
			return nil
		})
		if err != io.EOF && len(data) < maxLine {
			t.Errorf("got %v, want EOF", err)
		}
		if most := strings.Count(string(data), "data"); len(got) > most {
			t.Errorf("%d events of %d lines of data", len(got), most)
		}
	})
}

// Servers of other versions read and write these names.
func TestTheNamesOfTimesInMessagesStay(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	got, err := (&Request{
		Batch: []journal.Commit{{Writes: []journal.Write{{Key: "k", Expires: at}}}},
		Chunk: journal.Chunk{Records: []journal.Record{{Key: "k", Updated: at, Expires: at}}},
	}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	const text = `"2026-01-02T03:04:05Z"`
	for _, want := range []string{
		`"writes":[{"key":"k","value":null,"expires":` + text + `}]`,
		`"records":[{"key":"k","value":null,"version":"","updated":` + text + `,"expires":` + text + `}]`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the message is %s, want %s in it", got, want)
		}
	}
}
