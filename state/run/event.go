package run

import "github.com/thole-dev/thole"

// The types of events' data. All name the run.

// QueuedData is the data of run.queued: the run was asked for.
type QueuedData struct {
	Run         string `json:"run"`
	Agent       string `json:"agent,omitempty" doc:"the agent that was asked for, or works on it"`
	Model       string `json:"model,omitempty" doc:"the model asked for"`
	Parent      string `json:"parent,omitempty" doc:"the run whose sub-agent this is"`
	ResumedFrom string `json:"resumed_from,omitempty" doc:"the ended run that this one continues"`
}

func (r *Run) queuedData() QueuedData {
	return QueuedData{Run: r.ID, Agent: r.Agent, Model: r.Model, Parent: r.Parent, ResumedFrom: r.ResumedFrom}
}

// StartedData is the data of run.started: a worker began the run.
type StartedData struct {
	QueuedData
	Turn string `json:"turn" doc:"the turn that it writes"`
}

// UpdatedData is the data of run.updated: the run's model was chosen, it was edited in
// the queue, or it stopped waiting for a signal.
type UpdatedData struct {
	Run    string `json:"run"`
	Model  string `json:"model,omitempty" doc:"its model from now on"`
	Signal string `json:"signal,omitempty" names:"shown" doc:"the signal for which it no longer waits"`
	Status string `json:"status,omitempty" doc:"with signal: its status now"`
}

// WaitingData is the data of run.waiting: the run waits for a signal, perhaps besides
// others.
type WaitingData struct {
	Run    string `json:"run"`
	Signal string `json:"signal" names:"shown" doc:"the name of the signal"`
}

// SignalledData is the data of run.signalled: a signal arrived. What it says is for the
// run alone.
type SignalledData struct {
	Run    string `json:"run"`
	Signal string `json:"signal" names:"shown" doc:"the name of the signal"`
	Status string `json:"status" doc:"the run's status now"`
}

// CancelRequestedData is the data of run.cancel_requested: the run is asked to end.
type CancelRequestedData struct {
	Run   string `json:"run"`
	Cause string `json:"cause" doc:"user, disconnect, credits, timeout, superseded or shutdown"`
}

// FinishedData is the data of run.finished: the run has ended.
type FinishedData struct {
	Run    string `json:"run"`
	Status string `json:"status" doc:"succeeded, failed, cancelled, crashed or timed_out"`
	Turn   string `json:"turn,omitempty" doc:"the turn that it wrote; absent if it never began"`
	Cause  string `json:"cause,omitempty" doc:"why it was asked to end"`
	Error  string `json:"error,omitempty" doc:"why it failed"`
	Usage  *Usage `json:"usage,omitempty" doc:"of all models together"`
	Next   string `json:"next,omitempty" doc:"the run that is active now"`
}

// event declares an event of runs, which are all in the stream of the run's thread.
func event(typ string, data any, about string) thole.EventType {
	return thole.EventType{Type: typ, Data: data, Streams: []string{"thread/{thread}"}, Names: true, About: about}
}

// emit emits an event of the run.
func (r *Run) emit(tx *thole.Tx, typ string, data any) { tx.Emit(r.stream(), typ, data) }
