package run

import (
	"encoding/json"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// Name is the concept's.
const Name = "run"

// Concept is what runs keep and tell.
var Concept = &thole.Concept{
	Name:  Name,
	About: "executions of an agent in a thread",
	Needs: []*thole.Concept{thread.Concept},
	Events: []thole.EventType{
		event("run.queued", "it was asked for"),
		event("run.started", "a worker took it"),
		event("run.updated", "its model was chosen, it was edited in the queue, or it goes on without the signal of that name"),
		event("run.waiting", "it waits for the signal of that name, perhaps beside others"),
		event("run.signalled", "a signal came; its data is for the run only"),
		event("run.cancel_requested", "it is to end: `user disconnect credits timeout superseded shutdown`"),
		event("run.finished", "it has ended, once; `next` is the run whose turn has come"),
	},
	Records: []thole.RecordType{
		{Key: "run/{run}", ID: "run", Value: Run{}, Upcast: before, Of: threadOf, Expire: expire, About: "a run"},
		{Key: "run/{run}/" + internal, Value: internals{}, Private: true, About: "what only the engine needs of a run"},
		{Key: "run/{run}/child/{child}", Private: true, About: "a sub-agent's run"},
		{Key: "run/{run}/deadline", Expire: expire, Private: true, About: "when its time is up"},
		{Key: "run/{run}/cancelling", Value: cancelNote{}, Expire: expire, Private: true, About: "the runs below it are being cancelled"},
		{Key: "run/{run}/signal/{name}/{position}", Value: signal{}, Private: true, About: "a signal to it"},
		{Key: "run/{run}/signal/{name}", Value: signal{}, Private: true, About: "a signal of an earlier version"},
		{Key: "run/{run}/taken/{position}", Value: taking{}, Private: true, About: "it took a signal"},
		{Key: "run/{thread}/" + thread.GoneNotice, Value: thread.Gone{}, Expire: expire, Private: true, About: "a thread with runs is gone"},
		{Key: "thread/{thread}/run/{run}", Private: true, About: "a run of the thread"},
		{Key: "ready/{agent}/{run}", Value: ready{}, Private: true, About: "a run for a worker to take"},
		{Key: "slot/{owner}", Value: slot{}, Private: true, About: "which run of an owner's is active, and which wait"},
		{Key: "slot/%/{thread}", Value: slot{}, Private: true, About: "the same, of a thread's"},
	},
	Leases: []thole.LeaseType{{Base: "run/{run}", Expire: expire, About: "the worker that has a run"}},
}

// event is a type of the package's events.
func event(typ, about string) thole.EventType {
	return thole.EventType{Type: typ, Data: Event{}, Streams: []string{"thread/{thread}"}, Names: true, About: about}
}

// threadOf names the run's thread.
func threadOf(value json.RawMessage) ([]string, error) {
	var r struct {
		Thread string `json:"thread"`
	}
	err := json.Unmarshal(value, &r)
	return []string{r.Thread}, err
}
