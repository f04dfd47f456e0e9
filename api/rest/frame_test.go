package rest

import (
	"bytes"
	"testing"

	"github.com/thole-dev/thole"
)

// An old store may contain names that no commit may use now. None of them ends a line
// of a frame, and so none begins a field that nobody committed.
func TestAFrameIsOneEventWhateverItsNamesHold(t *testing.T) {
	bad := "x.y\r\nid: 1\n\ndata: forged\x00"
	d := &thole.Delivery{Event: thole.Event{
		Position: thole.Position{Epoch: "0001aaaaaaaa", Seq: 1}, Stream: bad, Type: bad, Actor: bad, Cause: bad, Subject: bad,
		Refs: []string{bad}, Data: []byte("1"),
	}}
	for name, got := range map[string][]byte{"one space": new(API).frame(d), "several": frameOf("user:1", "cursor", new(API).frame(d))} {
		lines := bytes.Split(bytes.TrimSuffix(got, []byte("\n\n")), []byte("\n"))
		if len(lines) != 3 || bytes.ContainsAny(got, "\r\x00") {
			t.Errorf("%s: got %d lines, want id, event and data: %q", name, len(lines), got)
		}
	}
}
