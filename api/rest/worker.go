package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/journal/problem"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// workerOperations returns the operations that a worker in any language needs: claim a
// run, write its turn, renew its lease, finish it. All but the claim take the run's
// token in Thole-Fence.
func workerOperations() []operation {
	const one = "/v1/spaces/{space}/threads/{thread}/runs/{run}"
	const blocks = "/v1/spaces/{space}/threads/{thread}/turns/{turn}/blocks"
	ended := failure{journal.ErrConflict, "the run or its turn has ended"}
	toEnd := failure{journal.ErrCancelled, "the run is being cancelled; cause says why"}
	return []operation{
		{id: "claimRun", method: "POST", path: "/v1/runs/claim", access: anyToken,
			needs:   "a grant to write in each of the spaces that is not narrowed to threads; for the runs of other people's private threads, also one to work there",
			summary: "Take the oldest run that waits for a worker of an agent", does: does(claimRun),
			about: "The run is the caller's under a lease. Send the answer's token in Thole-Fence with each call for the run, and call heartbeatRun every third of ttl: after ttl seconds without one, the run ends as crashed. " +
				"Write the turn with addBlock and updateBlock, and end the run with finishRun.",
			failures: []failure{{journal.ErrNotFound, "no run came in time"}, {journal.ErrFenced, "a repeat has another bearer token"}}},
		{id: "heartbeatRun", method: "POST", path: one + "/heartbeat", access: write, works: true,
			summary: "Renew a run's lease, and learn whether to stop",
			about:   "Call it every third of the claim's ttl, also while awaitSignal waits. If the answer has the member cancel, stop and call finishRun. After 404, the thread was deleted, and 409 fenced, the lease has ended, stop too: nothing is left to finish.",
			does:    does(beatRun)},
		{id: "awaitSignal", method: "POST", path: one + "/wait", access: write, works: true, waits: true,
			summary: "Wait for a signal, such as an approval; the run has status waiting meanwhile", does: does(waitRun), failures: []failure{ended, toEnd}},
		{id: "finishRun", method: "POST", path: one + "/finish", access: write, works: true,
			summary: "End a run; one that is being cancelled ends as cancelled", does: does(finishRun), failures: []failure{ended}},
		{id: "addBlock", method: "POST", path: blocks, access: write, works: true, status: 201,
			summary: "Add a block to a run's turn; one of type tool begins a tool call", does: does(addBlock), failures: []failure{ended, toEnd}},
		{id: "updateBlock", method: "PATCH", path: blocks + "/{block}", access: write, works: true,
			summary: "Append text to a block at an offset, or end a tool call", does: does(updateBlock), failures: []failure{ended, toEnd}},
	}
}

// NewClaim says whose runs a worker wants.
type NewClaim struct {
	Spaces      []string `json:"spaces" min:"1" max:"32" example:"[\"project:shop\"]"`
	Agent       string   `json:"agent,omitempty" doc:"whose runs; absent: those that name no agent"`
	WaitSeconds float64  `json:"wait_seconds,omitempty" default:"0" min:"0" max:"300" doc:"how long to wait for a run"`
	Worker      string   `json:"worker,omitempty" doc:"the agent of the worker, for a run that names none"`
	Holder      string   `json:"holder,omitempty" doc:"name of the worker, for people"`
}

// ClaimedRun is a run that the caller has claimed.
type ClaimedRun struct {
	Space   string         `json:"space"`
	Run     *run.Run       `json:"run"`
	Turn    string         `json:"turn" doc:"the turn that the run writes"`
	Request []thread.Block `json:"request" doc:"the blocks of the run's own prompt; empty if it was started without one and answers the thread's last message: see listMessages"`
	Token   string         `json:"token" doc:"send it in Thole-Fence"`
	TTL     float64        `json:"ttl" doc:"seconds without a heartbeat after which the run ends as crashed"`
}

type claimRunIn struct {
	Body NewClaim
}

func claimRun(c *call, body claimRunIn) (ClaimedRun, error) {
	var nothing ClaimedRun
	in := body.Body
	wait, err := seconds("/wait_seconds", in.WaitSeconds)
	if err != nil {
		return nothing, err
	}
	if in.Spaces, err = spaceNames("/spaces", in.Spaces); err != nil {
		return nothing, err
	}
	for _, name := range in.Spaces {
		scope, err := c.allowed(name, auth.Write)
		if err == nil && scope.Narrowed {
			err = fmt.Errorf("%w: the token is for some threads of %.80s only", problem.ErrForbidden, name)
		}
		if err != nil {
			return nothing, err
		}
	}
	serving, cancel := c.whileServing()
	defer cancel()
	serving = thole.Call(serving, "run.claim") // one call, however many times and spaces it tries
	ctx, stop := context.WithTimeoutCause(serving, wait, thole.ErrNotFound)
	defer stop()
	sick := sickSpaces{log: c.api.log, of: len(in.Spaces)}
	// Watch before the first try, so that no run is missed in between.
	var feed feed
	if wait > 0 {
		feed, err = c.hear(ctx, in.Spaces, &sick)
		switch {
		case err == nil:
			defer feed.close()
		case serving.Err() == nil && ctx.Err() != nil:
			wait = 0 // the time is up: try once
		default:
			return nothing, err
		}
	}
	spaces := in.Spaces
	for _, name := range in.Spaces { // ask all spaces for the receipt of a repeat before claiming in any
		_, repeated, err := c.handle(name).Earlier(serving)
		if err != nil {
			return nothing, err
		}
		if repeated {
			spaces = []string{name}
		}
	}
	for {
		sick.errs = nil
		for _, name := range spaces {
			h, err := run.In(c.handle(name), nil).Claim(serving, &run.ClaimOptions{
				Agent: in.Agent, Name: in.Worker, Holder: in.Holder,
				May: func(t *thread.Thread) bool { return c.mayClaim(name, t) },
			})
			switch {
			case err == nil:
				return c.claimed(name, h)
			case errors.Is(err, thole.ErrNotFound):
			case c.keyed(), serving.Err() != nil:
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
		} else if err != nil && !errors.Is(err, thole.ErrTrimmed) { // after a trim there may be a run too
			if sick.add("one of several", err); sick.of == 1 {
				return nothing, fmt.Errorf("no run came: %w", err)
			}
		}
	}
}

// sickSpaces collects the errors of a claim's spaces during one round of tries. A
// space that fails does not hold up the others.
type sickSpaces struct {
	log  *slog.Logger
	of   int // how many spaces the claim has
	errs []error
}

func (s *sickSpaces) add(space string, err error) {
	s.log.Warn("no run can be claimed in a space", "space", space, "err", err)
	s.errs = append(s.errs, err)
}

func (s *sickSpaces) all() bool { return len(s.errs) >= s.of }

// hear watches the spaces for runs that may have become ready. It leaves out spaces
// that cannot be watched, and fails if none can or ctx ends.
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

// mayClaim reports whether the caller may claim runs in a thread: everyone who may
// write to the space, but in a private thread only its owner, an admin, and callers
// with a work grant that covers the thread.
func (c *call) mayClaim(space string, t *thread.Thread) bool {
	return thread.VisibleTo(c.actor, t.Visibility, t.Owner) || c.mayWork(space, t.ID)
}

func (c *call) claimed(space string, h *run.Handle) (ClaimedRun, error) {
	t, err := thread.In(h.Space()).Get(c.ctx, h.Thread())
	switch {
	case err == nil && !c.mayClaim(space, t): // the thread has become private meanwhile
		return ClaimedRun{}, fmt.Errorf("%w: no run is waiting", thole.ErrNotFound)
	case err != nil && !errors.Is(err, thole.ErrNotFound): // a worker gets the run of a deleted thread, and learns of it
		return ClaimedRun{}, err
	}
	token, err := tokenOf(h.Fence())
	if err != nil {
		return ClaimedRun{}, err
	}
	c.space = h.Space() // the answer is masked by its privacy
	return ClaimedRun{Space: space, Run: h.Claimed(), Turn: h.Turn(), Request: append([]thread.Block{}, h.Request()...), Token: token, TTL: h.Lease().Seconds()}, nil
}

// ofWorker is embedded by operations that a run's worker calls.
type ofWorker struct {
	ofRun
	ofLease
}

func (in ofWorker) attach(c *call) (*run.Handle, error) {
	return in.ofLease.attach(c, in.Thread, in.Run, "")
}

// ofTurn is embedded by operations with which a worker writes its turn.
type ofTurn struct {
	ofThread
	Turn string `path:"turn" doc:"the id of the run's turn" example:"turn_019f3a5e0c7d7b4e9a51c7e2f0a4b8d6"`
	ofLease
}

func (in ofTurn) attach(c *call) (*run.Handle, error) {
	return in.ofLease.attach(c, in.Thread, "", in.Turn)
}

// attach returns the calling worker's handle on its run in the thread. It checks that
// the run, or the turn, that the path names is the handle's.
func (in ofLease) attach(c *call, thread, named, turn string) (*run.Handle, error) {
	id, err := runOf(in.Fence)
	if err != nil {
		return nil, err
	}
	if named != "" && named != id {
		return nil, invalid("Thole-Fence", "holds the token of another run")
	}
	h, err := run.In(c.handle(c.space.Name()), nil).Attach(c.ctx, id, in.Fence)
	if err != nil {
		return nil, err
	}
	if h.Thread() != thread || turn != "" && turn != h.Turn() {
		return nil, fmt.Errorf("%w: run %s does not work here", thole.ErrNotFound, id)
	}
	return h, nil
}

func beatRun(c *call, in ofWorker) (*run.Run, error) {
	h, err := in.attach(c)
	if err != nil {
		return nil, err
	}
	if err := h.Heartbeat(c.ctx); err != nil {
		return nil, err
	}
	return h.Get(c.ctx)
}

// NewWait says what a run waits for.
type NewWait struct {
	Name        string  `json:"name" doc:"of the signal" example:"approval"`
	WaitSeconds float64 `json:"wait_seconds,omitempty" default:"30" min:"0" max:"300" doc:"how long this request may take; 0: it does not wait. The run has status waiting until its worker goes on with something else"`
}

// Signalled is the result of a wait.
type Signalled struct {
	Arrived bool            `json:"arrived" doc:"false: not yet; call again"`
	Data    json.RawMessage `json:"data,omitempty" doc:"the signal's data; this answer takes the signal from the run; a repeat under the same Idempotency-Key gets it again"`
}

// errNotYet ends a wait whose signal did not arrive in time.
var errNotYet = errors.New("the signal has not come yet")

type waitRunIn struct {
	ofWorker
	Body NewWait
}

// waitRun waits for a signal and takes it. The worker renews its lease meanwhile.
func waitRun(c *call, in waitRunIn) (Signalled, error) {
	h, err := in.attach(c)
	if err != nil {
		return Signalled{}, err
	}
	wait, err := seconds("/wait_seconds", in.Body.WaitSeconds)
	if err != nil {
		return Signalled{}, err
	}
	if wait == 0 {
		data, arrived, err := h.Take(c.ctx, in.Body.Name)
		return Signalled{Arrived: arrived, Data: data}, err
	}
	serving, cancel := c.whileServing()
	defer cancel()
	ctx, stop := context.WithTimeoutCause(serving, wait, errNotYet)
	defer stop()
	data, err := h.Wait(ctx, in.Body.Name)
	if errors.Is(err, errNotYet) {
		return Signalled{}, nil
	}
	return Signalled{Arrived: err == nil, Data: data}, err
}

// RunEnd says how a run ends.
type RunEnd struct {
	Status string               `json:"status" enum:"succeeded|failed"`
	Error  string               `json:"error,omitempty" doc:"why it failed"`
	Usage  map[string]run.Usage `json:"usage,omitempty" doc:"by model, at most 64; added to what was reported before"`
}

type finishRunIn struct {
	ofWorker
	Body RunEnd
}

func finishRun(c *call, in finishRunIn) (*run.Run, error) {
	h, err := in.attach(c)
	if err != nil {
		return nil, err
	}
	return h.FinishWith(c.ctx, in.Body.Status, in.Body.Error, in.Body.Usage)
}
