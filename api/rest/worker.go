package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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
		{method: "POST", path: one + "/heartbeat", tag: "workers", access: write, works: true, holds: true,
			summary: "Renew a run's lease; says whether the run is to end; 404 when its thread is gone", do: gives(beatRun)},
		{method: "POST", path: one + "/wait", tag: "workers", access: write, works: true, holds: true, waits: true,
			summary: "Wait for a signal, such as an approval; the run has status waiting meanwhile", do: takes(waitRun)},
		{method: "POST", path: one + "/finish", tag: "workers", access: write, works: true, holds: true,
			summary: "End a run; one that is to be cancelled becomes cancelled", do: takes(finishRun)},
		{method: "POST", path: turn, tag: "workers", access: write, works: true, holds: true, status: 201,
			summary: "Add a block to a run's turn; of type tool: a call begins", do: takes(addBlock)},
		{method: "PATCH", path: turn + "/{block}", tag: "workers", access: write, works: true, holds: true,
			summary: "Append text to a block at an offset, or end a tool's call", do: takes(changeBlock)},
	}
}

// NewClaim says whose runs a worker wants.
type NewClaim struct {
	Spaces      []string `json:"spaces" doc:"at most 32"`
	Agent       string   `json:"agent,omitempty"`
	WaitSeconds float64  `json:"wait_seconds,omitempty" doc:"up to 300; default 0"`
	Worker      string   `json:"worker,omitempty" doc:"the agent that takes it, for a run that names none"`
	Holder      string   `json:"holder,omitempty" doc:"who takes it, for people"`
}

// ClaimedRun is a run that the caller works on from now on.
type ClaimedRun struct {
	Space   string         `json:"space"`
	Run     *run.Run       `json:"run"`
	Turn    string         `json:"turn" doc:"what it writes"`
	Request []thread.Block `json:"request" doc:"what the user asked for"`
	Token   string         `json:"token" doc:"goes into Thole-Fence"`
}

func claimRun(c *call, in NewClaim) (ClaimedRun, error) {
	var nothing ClaimedRun
	wait, err := seconds("wait_seconds", in.WaitSeconds, maxWait)
	if err != nil {
		return nothing, err
	}
	if in.Spaces, err = spaceNames("spaces", in.Spaces); err != nil {
		return nothing, err
	}
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
	serving = thole.Call(serving, "run.claim") // one, however many looks in however many spaces
	ctx, stop := context.WithTimeoutCause(serving, wait, thole.ErrNotFound)
	defer stop()
	sick := sickSpaces{log: c.api.log, of: len(in.Spaces)}
	// Watch before looking, so that nothing is missed between.
	var feed feed
	if wait > 0 {
		feed, err = c.hear(ctx, in.Spaces, &sick)
		switch {
		case err == nil:
			defer feed.close()
		case serving.Err() == nil && ctx.Err() != nil:
			wait = 0 // there was hardly time to look
		default:
			return nothing, err
		}
	}
	for _, name := range in.Spaces { // all, before a run is taken in any; without a key they are not asked
		h, err := run.In(c.handle(name), nil).Claimed(serving)
		if err == nil {
			return c.claimed(name, h)
		}
		if !errors.Is(err, thole.ErrNotFound) {
			return nothing, err
		}
	}
	for {
		sick.errs = nil
		for _, name := range in.Spaces {
			h, err := run.In(c.handle(name), nil).Claim(serving, &run.ClaimOptions{
				Agent: in.Agent, Name: in.Worker, Holder: in.Holder,
				May: func(t *thread.Thread) bool { return c.mayClaim(name, t) },
			})
			switch {
			case err == nil:
				return c.claimed(name, h)
			case errors.Is(err, thole.ErrNotFound):
			case c.r.Header.Get("Idempotency-Key") != "", serving.Err() != nil:
				return nothing, err // under a key only one space may have the receipt
			default:
				sick.add(name, err)
			}
		}
		switch {
		case sick.all():
			return nothing, sick.errs[0]
		case wait == 0:
			return nothing, fmt.Errorf("%w: no run is waiting", thole.ErrNotFound)
		}
		if _, _, err := feed.next(ctx); ctx.Err() != nil {
			return nothing, fmt.Errorf("no run came: %w", context.Cause(ctx))
		} else if err != nil && !errors.Is(err, thole.ErrTrimmed) { // after which a run may be there as well
			if sick.add("one of several", err); sick.of == 1 {
				return nothing, fmt.Errorf("no run came: %w", err)
			}
		}
	}
}

// sickSpaces are those of a claim's spaces in which one look failed. They hold up
// none of the others.
type sickSpaces struct {
	log  *slog.Logger
	of   int // how many spaces there are
	errs []error
}

func (s *sickSpaces) add(space string, err error) {
	s.log.Warn("no run can be claimed in a space", "space", space, "err", err)
	s.errs = append(s.errs, err)
}

func (s *sickSpaces) all() bool { return len(s.errs) >= s.of }

// hear watches spaces for runs that may have become ready: all that can be
// watched. It fails when ctx ends or none can.
func (c *call) hear(ctx context.Context, spaces []string, sick *sickSpaces) (feed, error) {
	var watched []string
	var watches []*thole.Watch
	for _, name := range spaces {
		w, err := c.handle(name).Watch(ctx, &thole.WatchOptions{Types: []string{"run.queued", "run.finished"}, Durable: true})
		if err == nil {
			watched, watches = append(watched, name), append(watches, w)
			continue
		}
		if ctx.Err() == nil {
			sick.add(name, err)
		}
		if ctx.Err() != nil || sick.all() {
			for _, w := range watches {
				w.Close()
			}
			return nil, err
		}
	}
	return newMerged(ctx, watched, watches), nil
}

// mayClaim reports whether the caller may work in a thread: everyone who may
// change the space may, but in a private thread only its owner, an admin, and
// those whose grant is for workers of this thread.
func (c *call) mayClaim(space string, t *thread.Thread) bool {
	return t.Visibility != thread.Private || t.Owner == c.actor || c.mayWork(space, t.ID)
}

func (c *call) claimed(space string, h *run.Handle) (ClaimedRun, error) {
	t, err := thread.In(h.Space()).Get(c.ctx, h.Thread())
	switch {
	case err == nil && !c.mayClaim(space, t): // it has become private since
		return ClaimedRun{}, fmt.Errorf("%w: no run is waiting", thole.ErrNotFound)
	case err != nil && !errors.Is(err, thole.ErrNotFound): // if it is gone, the worker is to hear of it
		return ClaimedRun{}, err
	}
	r, err := h.Get(c.ctx)
	if err != nil {
		return ClaimedRun{}, err
	}
	c.space = h.Space() // the answer is of it
	return ClaimedRun{Space: space, Run: r, Turn: h.Turn(), Request: append([]thread.Block{}, h.Request()...), Token: h.Fence().Proof()}, nil
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
	return r, nil
}

// NewWait says what a run waits for.
type NewWait struct {
	Name        string  `json:"name" doc:"of the signal"`
	WaitSeconds float64 `json:"wait_seconds,omitempty" doc:"how long this request may take, 1 to 300; default 30. The run has status waiting until its worker goes on with something else"`
}

// Signalled is what came of a wait.
type Signalled struct {
	Arrived bool            `json:"arrived" doc:"false: not yet; call again"`
	Data    json.RawMessage `json:"data,omitempty" doc:"the signal's; it is taken from the run with this answer; a repeat under the same Idempotency-Key gets it again"`
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
	ctx, stop := context.WithTimeoutCause(serving, wait, errNotYet)
	defer stop()
	data, err := h.Wait(ctx, in.Name)
	if errors.Is(err, errNotYet) {
		return Signalled{}, nil
	}
	return Signalled{Arrived: err == nil, Data: data}, err
}

// RunEnd is how a run ends.
type RunEnd struct {
	Status string               `json:"status" enum:"succeeded|failed"`
	Error  string               `json:"error,omitempty" doc:"why it failed"`
	Usage  map[string]run.Usage `json:"usage,omitempty" doc:"by model, at most 64; added to what was reported before"`
}

func finishRun(c *call, in RunEnd) (*run.Run, error) {
	h, err := c.attach()
	if err != nil {
		return nil, err
	}
	r, err := h.FinishWith(c.ctx, in.Status, in.Error, in.Usage)
	if err != nil {
		return nil, err
	}
	return r, nil
}
