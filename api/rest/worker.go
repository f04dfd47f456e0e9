package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// workerRoutes are what a worker in any language needs: claim a run, write its
// turn, keep its lease, finish it. All but the claim carry the run's token in
// Thole-Fence.
func workerRoutes() []route {
	const one = "/v1/spaces/{space}/threads/{thread}/runs/{run}"
	const turn = "/v1/spaces/{space}/threads/{thread}/turns/{turn}/blocks"
	return []route{
		{method: "POST", path: "/v1/runs/claim", tag: "workers", access: anyToken,
			summary: "Take the oldest run that waits for a worker of an agent; 404 when there is none in time, 409 when a repeat finds its run lost", do: takes(claimRun)},
		{method: "POST", path: one + "/heartbeat", tag: "workers", access: write,
			summary: "Renew a run's lease; says whether the run is to end", do: gives(beatRun)},
		{method: "POST", path: one + "/wait", tag: "workers", access: write,
			summary: "Wait for a signal, such as an approval; the run has status waiting meanwhile", do: takes(waitRun)},
		{method: "POST", path: one + "/finish", tag: "workers", access: write,
			summary: "End a run; one that is to be cancelled becomes cancelled", do: takes(finishRun)},
		{method: "POST", path: turn, tag: "workers", access: write, status: 201,
			summary: "Add a block to a run's turn; of type tool: a call begins", do: takes(addBlock)},
		{method: "PATCH", path: turn + "/{block}", tag: "workers", access: write,
			summary: "Append text to a block at an offset, or end a tool's call", do: takes(changeBlock)},
	}
}

// NewClaim says whose runs a worker wants.
type NewClaim struct {
	Spaces      []string `json:"spaces" jsonschema:"description=at most 32"`
	Agent       string   `json:"agent,omitempty"`
	WaitSeconds float64  `json:"wait_seconds,omitempty" jsonschema:"description=up to 300; default 0"`
	Worker      string   `json:"worker,omitempty" jsonschema:"description=the agent that takes it, for a run that names none"`
	Holder      string   `json:"holder,omitempty" jsonschema:"description=who takes it, for people"`
}

// ClaimedRun is a run that the caller works on from now on.
type ClaimedRun struct {
	Space   string         `json:"space"`
	Run     *run.Run       `json:"run"`
	Turn    string         `json:"turn" jsonschema:"description=what it writes"`
	Request []thread.Block `json:"request" jsonschema:"description=what the user asked for"`
	Token   string         `json:"token" jsonschema:"description=goes into Thole-Fence"`
}

func claimRun(c *call, in NewClaim) (ClaimedRun, error) {
	var nothing ClaimedRun
	wait, err := seconds("wait_seconds", in.WaitSeconds, maxWait)
	if err != nil {
		return nothing, err
	}
	if len(in.Spaces) == 0 || len(in.Spaces) > maxWatched {
		return nothing, invalid("spaces", "has %d names; 1 to %d are expected", len(in.Spaces), maxWatched)
	}
	slices.Sort(in.Spaces)
	in.Spaces = slices.Compact(in.Spaces)
	for _, name := range in.Spaces {
		scope, err := c.allowed(name, auth.Write)
		if err == nil && scope.Narrowed {
			err = fmt.Errorf("%w: the token is for some threads of %.80s only", ErrForbidden, name)
		}
		if err != nil {
			return nothing, err
		}
	}
	serving, cancel := c.whileServing()
	defer cancel()
	ctx, stop := context.WithTimeoutCause(serving, wait, thole.ErrNotFound)
	defer stop()
	// Watch before looking, so that nothing is missed between.
	var feed feed
	if wait > 0 {
		feed, err = c.hear(ctx, in.Spaces)
		switch {
		case err == nil:
			defer feed.close()
		case serving.Err() == nil && ctx.Err() != nil:
			wait = 0 // there was hardly time to look
		default:
			return nothing, err
		}
	}
	for _, name := range in.Spaces { // all, before a run is taken in any
		h, err := run.In(c.handle(name), nil).Claimed(serving)
		if err == nil {
			return c.claimed(name, h)
		}
		if !errors.Is(err, thole.ErrNotFound) {
			return nothing, err
		}
	}
	for {
		for _, name := range in.Spaces {
			h, err := run.In(c.handle(name), nil).Claim(serving, &run.ClaimOptions{Agent: in.Agent, Name: in.Worker, Holder: in.Holder})
			if err == nil {
				return c.claimed(name, h)
			}
			if !errors.Is(err, thole.ErrNotFound) {
				return nothing, err
			}
		}
		if wait == 0 {
			return nothing, fmt.Errorf("%w: no run is waiting", thole.ErrNotFound)
		}
		if _, _, err := feed.next(ctx); ctx.Err() != nil {
			return nothing, fmt.Errorf("no run came: %w", context.Cause(ctx))
		} else if err != nil && !errors.Is(err, thole.ErrTrimmed) { // after which a run may be there as well
			return nothing, fmt.Errorf("no run came: %w", err)
		}
	}
}

// hear watches spaces for runs that may have become ready.
func (c *call) hear(ctx context.Context, spaces []string) (feed, error) {
	var watches []*thole.Watch
	for _, name := range spaces {
		w, err := c.handle(name).Watch(ctx, &thole.WatchOptions{Types: []string{"run.queued", "run.finished"}, Durable: true})
		if err != nil {
			for _, w := range watches {
				w.Close()
			}
			return nil, err
		}
		watches = append(watches, w)
	}
	return newMerged(ctx, spaces, watches), nil
}

func (c *call) claimed(space string, h *run.Handle) (ClaimedRun, error) {
	r, err := h.Get(c.ctx)
	if err != nil {
		return ClaimedRun{}, err
	}
	return ClaimedRun{Space: space, Run: shown(r), Turn: h.Turn(), Request: h.Request(), Token: h.Fence().String()}, nil
}

// attach returns the handle of the worker that calls, on its run in the thread
// in the path.
func (c *call) attach() (*run.Handle, error) {
	f, err := c.fence()
	if err != nil {
		return nil, err
	}
	id, err := runOf(f)
	if err != nil {
		return nil, err
	}
	if named := c.r.PathValue("run"); named != "" && named != id {
		return nil, invalid("Thole-Fence", "holds the token of another run")
	}
	h, err := run.In(c.handle(c.space.Name()), nil).Attach(c.ctx, id, f)
	if err != nil {
		return nil, err
	}
	turn := c.r.PathValue("turn")
	if h.Thread() != c.r.PathValue("thread") || turn != "" && turn != h.Turn() {
		return nil, fmt.Errorf("%w: run %s does not work here", thole.ErrNotFound, id)
	}
	return h, nil
}

func beatRun(c *call) (*run.Run, error) {
	h, err := c.attach()
	if err != nil {
		return nil, err
	}
	if err := h.Heartbeat(c.ctx); err != nil {
		return nil, err
	}
	r, err := h.Get(c.ctx)
	if err != nil {
		return nil, err
	}
	return shown(r), nil
}

// NewWait says what a run waits for.
type NewWait struct {
	Name        string  `json:"name" jsonschema:"description=of the signal"`
	WaitSeconds float64 `json:"wait_seconds,omitempty" jsonschema:"description=how long this request may take, 1 to 300; default 30. The run waits on afterwards"`
}

// Signalled is what came of a wait.
type Signalled struct {
	Arrived bool            `json:"arrived" jsonschema:"description=false: not yet; call again"`
	Data    json.RawMessage `json:"data,omitempty" jsonschema:"description=the signal's; it is taken from the run with this answer"`
}

// errNotYet ends a wait whose signal did not come in time.
var errNotYet = errors.New("the signal has not come yet")

// waitRun takes a signal. The worker renews the lease meanwhile, as always.
func waitRun(c *call, in NewWait) (Signalled, error) {
	wait, err := seconds("wait_seconds", in.WaitSeconds, maxWait)
	if err != nil {
		return Signalled{}, err
	}
	switch {
	case wait == 0:
		wait = 30 * time.Second
	case wait < time.Second:
		return Signalled{}, invalid("wait_seconds", "%v is less than 1", in.WaitSeconds)
	}
	h, err := c.attach()
	if err != nil {
		return Signalled{}, err
	}
	serving, cancel := c.whileServing()
	defer cancel()
	// Under the key of the request a second look would be a repeat of the first.
	ctx, stop := context.WithTimeoutCause(thole.WithoutIdempotencyKey(serving), wait, errNotYet)
	defer stop()
	data, err := h.Wait(ctx, in.Name)
	if errors.Is(err, errNotYet) {
		return Signalled{}, nil
	}
	return Signalled{Arrived: err == nil, Data: data}, err
}

// RunEnd is how a run ends.
type RunEnd struct {
	Status string               `json:"status" jsonschema:"enum=succeeded,enum=failed"`
	Error  string               `json:"error,omitempty" jsonschema:"description=why it failed"`
	Usage  map[string]run.Usage `json:"usage,omitempty" jsonschema:"description=by model; added to what was reported before"`
}

func finishRun(c *call, in RunEnd) (*run.Run, error) {
	h, err := c.attach()
	if err != nil {
		return nil, err
	}
	// In order: under an idempotency key the n-th commit of a repeat is the n-th.
	for _, model := range slices.Sorted(maps.Keys(in.Usage)) {
		if err := h.AddUsage(c.ctx, model, in.Usage[model]); err != nil {
			return nil, err
		}
	}
	r, err := h.Finish(c.ctx, in.Status, in.Error)
	if err != nil {
		return nil, err
	}
	return shown(r), nil
}
