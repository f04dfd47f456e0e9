package journal_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/thole-dev/thole/journal"
)

func TestACommitSaysWhatItLeavesOnceItHasItsResult(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seq uint64) journal.Position { return journal.Position{Epoch: "0001deadbeef", Seq: seq} }
	c := journal.Commit{Space: "user:1", Now: now, Actor: "agent:a", Cause: "run_1",
		Events: []journal.Event{{Stream: "s", Type: "a.b", Data: json.RawMessage("1")}, {Stream: "t", Type: "a.c", Subject: "user:2", Refs: []string{"r"}, Schema: 2, Data: json.RawMessage("2")}},
		Writes: []journal.Write{{Key: "k", Value: json.RawMessage("3"), Schema: 4, Expires: now.Add(1), Notify: true}, {Key: "gone"}},
	}
	r := journal.Result{First: at(7), Last: at(8)}
	want := journal.Event{Position: at(8), Stream: "t", Type: "a.c", Time: now, Actor: "agent:a", Cause: "run_1", Subject: "user:2", Refs: []string{"r"}, Schema: 2, Data: json.RawMessage("2")}
	if got := c.Event(1, r); !reflect.DeepEqual(got, want) {
		t.Errorf("second event: got %+v, want %+v", got, want)
	}
	record := journal.Record{Key: "k", Value: json.RawMessage("3"), Schema: 4, Version: at(8), Updated: now, Expires: now.Add(1), Notify: true}
	if got := c.Record(0, r); !reflect.DeepEqual(got, record) {
		t.Errorf("record: got %+v, want %+v", got, record)
	}
	if got := c.Record(1, r); got.Exists() || got.Key != "gone" {
		t.Errorf("deleted record: got %+v, want only its key", got)
	}
}
