package reminder

import (
	"context"
	"encoding/json"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// Name is the concept's name.
const Name = "reminder"

var streams = []string{"thread/{thread}"}

// Concept declares the events and records of reminders.
var Concept = &thole.Concept{
	Name:  Name,
	About: "texts that come up in a thread at a given time",
	Needs: []*thole.Concept{thread.Concept},
	Events: []thole.EventType{
		{Type: TypeSet, Data: Reminder{}, Streams: streams, About: "a reminder was set"},
		{Type: TypeCleared, Data: Cleared{}, Streams: streams, About: "a reminder was deleted before its time"},
		{Type: TypeDue, Data: Due{}, Streams: streams, About: "the time of a reminder has come; it is deleted"},
	},
	Records: []thole.RecordType{
		{Key: "reminder/{reminder}", ID: "rem", Value: Reminder{}, Of: threadOf, Expire: expire, About: "a reminder"},
	},
	Check: check,
}

// threadOf returns the reminder's thread.
func threadOf(value json.RawMessage) ([]string, error) {
	var r Reminder
	err := json.Unmarshal(value, &r)
	return []string{thread.Key(r.Thread)}, err
}

// check reports reminders without a text.
func check(ctx context.Context, sp *thole.Space, report *thole.Report) error {
	for rec, err := range sp.Records(ctx, key("")) {
		if err != nil {
			return err
		}
		var r Reminder
		if rec.As(&r) == nil && r.Text == "" {
			report.Problem("record %s has no text", rec.Key)
		}
	}
	return nil
}
