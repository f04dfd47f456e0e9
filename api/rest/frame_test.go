package rest

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
)

// An old store may contain names that no commit may use now, and white space in data.
// None of them ends a line of a frame, and so none begins a field that nobody committed.
func TestAFrameIsOneEventWhateverItsNamesHold(t *testing.T) {
	bad := "x.y\r\nid: 1\n\ndata: forged\x00"
	d := &thole.Delivery{Event: thole.Event{
		Position: thole.Position{Epoch: "0001aaaaaaaa", Seq: 1}, Stream: bad, Type: bad, Actor: bad, Cause: bad, Subject: bad,
		Refs: []string{bad}, Data: []byte("{\r\n\"a\":\n1}"),
	}}
	for name, got := range map[string][]byte{"one space": new(API).frame(d), "several": frameOf("user:1", "cursor", new(API).frame(d))} {
		lines := bytes.Split(bytes.TrimSuffix(got, []byte("\n\n")), []byte("\n"))
		if len(lines) != 3 || bytes.ContainsAny(got, "\r\x00") {
			t.Errorf("%s: got %d lines, want id, event and data: %q", name, len(lines), got)
			continue
		}
		var e event
		if err := json.Unmarshal(bytes.TrimPrefix(lines[2], []byte("data: ")), &e); err != nil || string(e.Data) != `{"a":1}` {
			t.Errorf("%s: the data line holds %s, %v: %q", name, e.Data, err, lines[2])
		}
	}
}

// The frame that docs/events.md shows has the members of a real one, in their order.
func TestTheFrameOfTheDocumentsIsAsOneIsSent(t *testing.T) {
	text, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sample, _ := strings.Cut(string(text), "\ndata: ")
	sample, _, _ = strings.Cut(sample, "\n")
	var e event
	if err := json.Unmarshal([]byte(sample), &e); err != nil || e.Source == "" || e.Schema == 0 {
		t.Fatalf("docs/events.md shows %s: %v", sample, err)
	}
	if again, err := marshal(e); err != nil || strings.TrimSpace(string(again)) != sample {
		t.Errorf("docs/events.md shows\n%s\nan event is sent as\n%s (%v)", sample, again, err)
	}
}

func BenchmarkFrame(b *testing.B) {
	d := &thole.Delivery{Event: thole.Event{
		Position: thole.Position{Epoch: "0001aaaaaaaa", Seq: 1}, Stream: "thread/thrd_00112233445566778899aabbccddeeff", Type: "message.added",
		Actor: "user:local", Cause: "sess_00112233445566778899aabbccddeeff", Data: []byte(`{"text":"` + strings.Repeat("x", 300) + `"}`),
	}}
	b.ReportAllocs()
	for b.Loop() {
		new(API).frame(d)
	}
}
