package decision

import (
	"encoding/json"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
)

// Name is the concept's name.
const Name = "decision"

// Concept declares the events, records and lease of decisions.
var Concept = &thole.Concept{
	Name:  Name,
	About: "what agents decided to do, recorded before the act, and the outcomes",
	Needs: []*thole.Concept{run.Concept},
	Events: []thole.EventType{
		{Type: TypePlanned, Data: Decision{}, Upcast: thole.Renamed[thole.Event](times), Streams: []string{Stream}, Of: planOf, Names: true, About: "an act was decided and is about to begin, or a standing order was given"},
		{Type: TypeResolved, Data: Outcome{}, Streams: []string{Stream}, Of: outcomeOf, Names: true, About: "the outcome of a decision"},
	},
	Records: []thole.RecordType{
		{Key: "decision/{decision}", Value: Decision{}, Upcast: thole.Renamed[thole.Record](times), Of: planOf, About: "a decision"},
		{Key: "decision-open/{decision}", Private: true, About: "a decision without an outcome"},
		{Key: "decision-standing/{decision}", Private: true, About: "a standing order in force"},
		{Key: "decision-key/{hash}", Value: keyed{}, Private: true, About: "the decision that was made under a key"},
	},
	Leases: []thole.LeaseType{{Base: "decision-act/{decision}", About: "the process that acts"}},
	Check:  check,
}

// times maps a decision's names of times before schema 2 to today's.
var times = map[string]string{"created": "created_at", "resolved": "resolved_at"}

// Of returns the keys of the thread and the run to which the plan belongs. A run that is
// not an id is left out: it is in no thread.
func (p *Plan) Of() (of []string) {
	if p.Thread != "" {
		of = append(of, "thread/"+p.Thread)
	}
	if thole.CheckID("run", p.Run) == nil {
		of = append(of, "run/"+p.Run)
	}
	return of
}

func planOf(value json.RawMessage) ([]string, error) {
	var p Plan
	err := json.Unmarshal(value, &p)
	return p.Of(), err
}

// outcomeOf returns the key of an outcome's decision.
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
