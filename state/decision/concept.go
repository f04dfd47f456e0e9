package decision

import (
	"encoding/json"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
)

// Name is the concept's.
const Name = "decision"

// Concept is what decisions keep and tell.
var Concept = &thole.Concept{
	Name:  Name,
	About: "what was decided before it was done, and what came of it",
	Needs: []*thole.Concept{run.Concept},
	Events: []thole.EventType{
		{Type: TypePlanned, Data: Decision{}, Upcast: thole.Renamed[thole.Event](times), Streams: []string{Stream}, Of: planOf, Names: true, About: "before the act; or a standing order"},
		{Type: TypeResolved, Data: Outcome{}, Streams: []string{Stream}, Of: outcomeOf, Names: true, About: "what came of it"},
	},
	Records: []thole.RecordType{
		{Key: "decision/{decision}", Value: Decision{}, Upcast: thole.Renamed[thole.Record](times), Of: planOf, About: "a decision"},
		{Key: "decision-open/{decision}", Private: true, About: "it has no outcome"},
		{Key: "decision-standing/{decision}", Private: true, About: "an order in force"},
		{Key: "decision-key/{hash}", Value: keyed{}, Private: true, About: "the decision that was made under a key"},
	},
	Leases: []thole.LeaseType{{Base: "decision-act/{decision}", About: "who acts now"}},
}

// times are the names that the times of a decision had before schema 2.
var times = map[string]string{"created": "created_at", "resolved": "resolved_at"}

// planOf names the thread and the run of a decision. A run may have a name that is no
// id: it is in no thread.
func planOf(value json.RawMessage) (of []string, err error) {
	var p Plan
	if err := json.Unmarshal(value, &p); err != nil {
		return nil, err
	}
	if p.Thread != "" {
		of = append(of, p.Thread)
	}
	if thole.CheckID("run", p.Run) == nil {
		of = append(of, "run/"+p.Run)
	}
	return of, nil
}

// outcomeOf names the decision of an outcome; one that was redacted names none.
func outcomeOf(data json.RawMessage) (of []string, err error) {
	var o Outcome
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, err
	}
	if o.ID != "" {
		of = append(of, all+o.ID)
	}
	return of, nil
}
