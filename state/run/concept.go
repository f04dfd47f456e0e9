package run

import (
	"encoding/json"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// Name is the concept's name.
const Name = "run"

// Concept declares the events, records and lease of runs.
var Concept = &thole.Concept{
	Name:         Name,
	About:        "executions of an agent in a thread",
	Conversation: true,
	Needs:        []*thole.Concept{thread.Concept},
	Events: []thole.EventType{
		event("run.queued", QueuedData{}, "the run was asked for"),
		event("run.started", StartedData{}, "a worker began the run"),
		event("run.updated", UpdatedData{}, "the run's model was chosen, it was edited in the queue, or it stopped waiting for `signal`"),
		event("run.waiting", WaitingData{}, "the run waits for `signal`, perhaps besides others"),
		event("run.signalled", SignalledData{}, "a signal arrived; only the run gets its data"),
		event("run.cancel_requested", CancelRequestedData{}, "the run is asked to end: `user disconnect credits timeout superseded shutdown`"),
		event("run.finished", FinishedData{}, "the run has ended, exactly once; `next` is the run that is active now"),
	},
	Records: []thole.RecordType{
		{Key: "run/{run}", ID: "run", Value: Run{}, Upcast: before, Of: threadOf, Expire: expire, About: "a run"},
		{Key: "run/{run}/" + internal, Value: internals{}, Private: true, About: "the fields of a run that only the engine needs"},
		{Key: "run/{run}/child/{child}", Private: true, About: "a sub-agent's run"},
		{Key: "run/{run}/deadline", Expire: expire, Private: true, About: "when the run times out"},
		{Key: "run/{run}/cancelling", Value: cancelNote{}, Expire: expire, Private: true, About: "the runs below the run are being cancelled"},
		{Key: "run/{run}/signal/{name}/{position}", Value: signal{}, Private: true, About: "a signal to the run"},
		{Key: "run/{run}/signal/{name}", Value: signal{}, Private: true, About: "a signal of an earlier version"},
		{Key: "run/{run}/taken/{position}", Value: taking{}, Private: true, About: "the run took a signal"},
		{Key: "run/{thread}/" + thread.GoneNotice, Value: thread.Gone{}, Expire: expire, Private: true, About: "a thread with runs is destroyed"},
		{Key: "thread/{thread}/run/{run}", Private: true, About: "a run of the thread"},
		{Key: "ready/{agent}/{run}", Value: ready{}, Private: true, About: "a run for a worker to take"},
		{Key: "slot/{owner}", Value: slot{}, Private: true, About: "which of an owner's runs is active, and which wait"},
		{Key: "slot/%/{thread}", Value: slot{}, Private: true, About: "which of a thread's runs is active, and which wait"},
	},
	Leases: []thole.LeaseType{{Base: "run/{run}", Expire: expire, About: "the worker that works on the run"}},
	Check:  check,
}

// threadOf returns the key of the run's thread.
func threadOf(value json.RawMessage) ([]string, error) {
	var r struct {
		Thread string `json:"thread"`
	}
	err := json.Unmarshal(value, &r)
	return []string{thread.Key(r.Thread)}, err
}
