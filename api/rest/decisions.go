package rest

import (
	"encoding/json"
	"errors"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/decision"
)

func decisionRoutes() []route {
	const all = "/v1/spaces/{space}/decisions"
	return []route{
		{method: "POST", path: all, tag: "decisions", access: write, status: 201,
			summary: "Record what is about to be done, before it is done; or a standing order", do: takes(planDecision)},
		{method: "GET", path: all, tag: "decisions", access: read, summary: "List decisions, oldest first",
			query: append(pagingParams(),
				oldParam{"incomplete", "boolean", "only those without an outcome: planned or unknown"},
				oldParam{"thread", "string", "only of this thread"},
				oldParam{"run", "string", "only of this run"}), do: gives(listDecisions)},
		{method: "GET", path: all + "/index", tag: "decisions", access: read, query: pagingParams()[:1],
			summary: "Read all standing orders and the last decisions (default 20)", do: gives(indexDecisions)},
		{method: "GET", path: all + "/{decision}", tag: "decisions", access: read, etag: true, summary: "Read a decision", do: gives(getDecision)},
		{method: "POST", path: all + "/{decision}/outcome", tag: "decisions", access: write,
			summary: "Record what came of a decision; done and failed stay so", do: takes(resolveDecision)},
	}
}

// NewDecision is what is about to be done, and why.
type NewDecision struct {
	decision.Plan
	Standing bool `json:"standing,omitempty" doc:"a rule that holds until it is retired with the outcome done"`
}

func planDecision(c *call, in NewDecision) (decision.Decision, error) {
	if in.Thread != "" {
		if err := c.mayEnter(in.Thread); err != nil {
			return decision.Decision{}, err
		}
	}
	if thole.CheckID("run", in.Run) == nil {
		if err := c.mayName(in.Run); err != nil {
			return decision.Decision{}, err
		}
		if r, err := c.runs().Peek(c.ctx, in.Run); err == nil && in.Thread == "" {
			in.Thread = r.Thread // so that it is listed with the thread's
		}
	}
	record := decision.In(c.space).Plan
	if in.Standing {
		record = decision.In(c.space).Order
	}
	d, err := record(c.ctx, in.Plan)
	if err != nil {
		return decision.Decision{}, err
	}
	c.created("decisions", d.ID)
	c.version(d.Version)
	return d, nil
}

func listDecisions(c *call) (page[decision.Decision], error) {
	limit, err := c.limit(100)
	if err != nil {
		return page[decision.Decision]{}, err
	}
	incomplete, err := c.flag("incomplete")
	if err != nil {
		return page[decision.Decision]{}, err
	}
	ds := decision.In(c.space)
	return pick(c, limit, func(cursor string, limit int) (looked[decision.Decision], error) {
		p, err := ds.List(c.ctx, &decision.ListOptions{
			Incomplete: incomplete, Thread: c.arg("thread"), Run: c.arg("run"), After: cursor, Limit: limit,
		})
		return looked[decision.Decision]{p.Decisions, p.Next, p.Looked, p.Bytes}, err
	}, c.mayReadDecision, func(d decision.Decision) string { return d.ID })
}

func indexDecisions(c *call) (decision.Index, error) {
	limit, err := c.limit(decision.IndexSize)
	if err != nil {
		return decision.Index{}, err
	}
	index, err := decision.In(c.space).Index(c.ctx, &decision.IndexOptions{Recent: limit, Select: c.mayReadDecision})
	return decision.Index{Standing: append([]decision.Decision{}, index.Standing...), Recent: append([]decision.Decision{}, index.Recent...)}, err
}

// mayReadDecision reports whether a decision is of no thread that is not for the
// caller.
func (c *call) mayReadDecision(d decision.Decision) bool { return !c.private().hidesDecision(d.Plan) }

// decision returns the decision in the path.
func (c *call) decision() (decision.Decision, error) {
	id := c.r.PathValue("decision")
	d, err := decision.In(c.space).Get(c.ctx, id)
	if errors.Is(err, thole.ErrNotFound) || err == nil && c.private().hidesDecision(d.Plan) {
		return decision.Decision{}, absent("decision", id)
	}
	return d, err
}

func getDecision(c *call) (decision.Decision, error) {
	d, err := c.decision()
	if err != nil {
		return decision.Decision{}, err
	}
	c.version(d.Version)
	return d, nil
}

// NewOutcome is what came of a decision.
type NewOutcome struct {
	Outcome decision.Status `json:"outcome" enum:"done|failed|unknown"`
	Result  json.RawMessage `json:"result,omitempty"`
}

func resolveDecision(c *call, in NewOutcome) (decision.Decision, error) {
	d, err := c.decision()
	if err != nil {
		return decision.Decision{}, err
	}
	var result any
	if in.Result != nil {
		result = in.Result
	}
	return decision.In(c.space).Resolve(c.ctx, d.ID, in.Outcome, result)
}
