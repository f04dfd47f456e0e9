package rest

import (
	"encoding/json"
	"errors"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/decision"
)

func decisionOperations() []operation {
	const all, one = "/v1/spaces/{space}/decisions", "/v1/spaces/{space}/decisions/{decision}"
	absent := failure{journal.ErrNotFound, "there is no such decision, or it is hidden from this caller"}
	return []operation{
		{id: "planDecision", method: "POST", path: all, access: write, status: 201, location: all + "/{id}",
			summary: "Record an action before it is done, or a standing order", does: does(planDecision),
			failures: []failure{{journal.ErrNotFound, "there is no such thread or run, or it is hidden from this caller"}}},
		{id: "listDecisions", method: "GET", path: all, access: read,
			summary: "List decisions, oldest first", does: does(listDecisions)},
		{id: "getDecisionIndex", method: "GET", path: all + "/index", access: read,
			summary: "Read all standing orders and the last decisions", does: does(indexDecisions)},
		{id: "getDecision", method: "GET", path: one, access: read,
			summary: "Read a decision", does: does(getDecision), failures: []failure{absent}},
		{id: "resolveDecision", method: "POST", path: one + "/outcome", access: write,
			summary: "Record the outcome of a decision; done and failed are final", does: does(resolveDecision),
			failures: []failure{absent, {journal.ErrConflict, "another outcome is recorded already"}}},
	}
}

// NewDecision says what is about to be done, and why.
type NewDecision struct {
	decision.Plan
	Standing bool `json:"standing,omitempty" doc:"a rule that holds until it gets the outcome done"`
}

type planDecisionIn struct {
	Body NewDecision
}

func planDecision(c *call, in planDecisionIn) (decision.Decision, error) {
	plan := in.Body.Plan
	if plan.Thread != "" {
		if err := c.mayAddTo(plan.Thread); err != nil {
			return decision.Decision{}, err
		}
	}
	if thole.CheckID("run", plan.Run) == nil {
		if err := c.mayName("run", plan.Run); err != nil {
			return decision.Decision{}, err
		}
		if r, err := c.runs().Peek(c.ctx, plan.Run); err == nil && plan.Thread == "" {
			plan.Thread = r.Thread // so that it is listed with the thread's decisions
		}
	}
	if in.Body.Standing {
		return decision.In(c.space).Order(c.ctx, plan)
	}
	return decision.In(c.space).Plan(c.ctx, plan)
}

type listDecisionsIn struct {
	paging
	Incomplete bool   `query:"incomplete" doc:"only those without an outcome: planned or unknown"`
	Thread     string `query:"thread" doc:"only of this thread"`
	Run        string `query:"run" doc:"only of this run"`
}

func listDecisions(c *call, in listDecisionsIn) (page[decision.Decision], error) {
	ds := decision.In(c.space)
	return pageOf(pick(in.paging, func(cursor string, limit int) (thole.PageOf[decision.Decision], error) {
		return ds.List(c.ctx, &decision.ListOptions{Incomplete: in.Incomplete, Thread: in.Thread, Run: in.Run, After: cursor, Limit: limit})
	}, c.mayReadDecision, func(d decision.Decision) string { return d.ID }))
}

type indexDecisionsIn struct {
	Limit int `query:"limit" default:"20" min:"1" max:"1000" doc:"at most this many decisions"`
}

func indexDecisions(c *call, in indexDecisionsIn) (decision.Index, error) {
	index, err := decision.In(c.space).Index(c.ctx, &decision.IndexOptions{Recent: in.Limit, Select: c.mayReadDecision})
	return decision.Index{Standing: append([]decision.Decision{}, index.Standing...), Recent: append([]decision.Decision{}, index.Recent...)}, err
}

// mayReadDecision reports whether the caller may read a decision: it does not belong
// to a thread that is hidden from the caller.
func (c *call) mayReadDecision(d decision.Decision) bool { return !c.private().hidesRecord(d.Of()...) }

type ofDecision struct {
	Decision string `path:"decision" doc:"the id of the decision" example:"dec_019f3a5e0c7d7b4e9a51c7e2f0a4b8d6"`
}

// find returns the decision, or ErrNotFound if the caller may not read it.
func (in ofDecision) find(c *call) (decision.Decision, error) {
	d, err := decision.In(c.space).Get(c.ctx, in.Decision)
	if errors.Is(err, thole.ErrNotFound) || err == nil && c.private().hidesRecord(d.Of()...) {
		return decision.Decision{}, absent("decision", in.Decision)
	}
	return d, err
}

func getDecision(c *call, in ofDecision) (decision.Decision, error) { return in.find(c) }

// NewOutcome is the outcome of a decision.
type NewOutcome struct {
	Outcome decision.Status `json:"outcome" enum:"done|failed|unknown"`
	Result  json.RawMessage `json:"result,omitempty"`
}

type resolveDecisionIn struct {
	ofDecision
	Body NewOutcome
}

func resolveDecision(c *call, in resolveDecisionIn) (decision.Decision, error) {
	d, err := in.find(c)
	if err != nil {
		return decision.Decision{}, err
	}
	var result any
	if in.Body.Result != nil {
		result = in.Body.Result
	}
	return decision.In(c.space).Resolve(c.ctx, d.ID, in.Body.Outcome, result)
}
