package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/journal/problem"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// A private thread is visible to its owner, to admins and to the workers of its runs.
// For everyone else the thread, its runs and its decisions do not exist: not under a
// path, not by an id in a request, not in lists, not in the events of the space.
// Shared data may name them, as a lock names its owner and an event its cause: there,
// the digits of their ids are replaced by zeros. Everything that this package shows of
// a space passes through a privacy.

// privacy decides what the caller may see of a space. It belongs to one request
// and is used by one goroutine at a time. The nil privacy hides nothing.
type privacy struct {
	c       *call
	space   *thole.Space
	scope   auth.Scope
	threads map[string]bool   // cache: whether a thread is hidden
	runs    map[string]string // cache: the thread of a run, which never changes
	hears   []string          // patterns of the streams that the caller watches; see [privacy.before]
	looked  int               // bytes of decisions read since the last call of took
	masked  int               // number of ids looked up to mask texts
	zeroed  map[string]bool   // cache: whether an id in a text is hidden
	named   map[string]bool   // ids in the request; nil: not searched for yet
}

// newPrivacy returns nil if nothing is hidden from the caller.
func (c *call) newPrivacy(space *thole.Space) *privacy {
	if c.isAdmin(space.Name()) {
		return nil
	}
	p := &privacy{c: c, space: space, scope: c.scope}
	p.forget()
	return p
}

// private returns the privacy of the call's space.
func (c *call) private() *privacy {
	if c.hidden == nil && c.space != nil {
		c.hidden = c.newPrivacy(c.space)
	}
	return c.hidden
}

// forget empties the caches.
func (p *privacy) forget() {
	if p != nil {
		p.threads, p.runs, p.zeroed = make(map[string]bool), make(map[string]string), make(map[string]bool)
	}
}

// took returns how many bytes of decisions were read since its last call.
func (p *privacy) took() (bytes int) {
	if p != nil {
		bytes, p.looked = p.looked, 0
	}
	return bytes
}

// hearing returns p, prepared for a watch of the streams that match patterns; none: all
// streams.
func (p *privacy) hearing(patterns []string) *privacy {
	if p != nil {
		p.hears = patterns
	}
	return p
}

// before prepares for the next deliveries of a watch. It is called with each batch, in
// order, before hides and maskEvent are called with its events. It forgets the threads
// that the batch changes, and those whose changes the watch does not deliver because
// their streams do not match p.hears.
func (p *privacy) before(batch []*thole.Delivery) {
	if p == nil {
		return
	}
	p.masked = 0
	clear(p.zeroed)
	if len(p.hears) > 0 {
		maps.DeleteFunc(p.threads, func(id string, _ bool) bool { return !shows(p.hears, thread.Key(id)) })
	}
	for _, d := range batch {
		if id, ok := threadOf(d.Stream); ok && changesPrivacy(d.Type) {
			delete(p.threads, id)
		}
	}
}

// changesPrivacy reports whether an event of that type may change who sees a thread.
func changesPrivacy(typ string) bool { return slices.Contains(privacyTypes, typ) }

// privacyTypes are the types of events that every watch needs, whether or not the
// caller asked for them.
var privacyTypes = []string{"thread.created", "thread.updated"}

// absent returns the error for something that does not exist or is hidden from the
// caller.
func absent(what, id string) error { return fmt.Errorf("%s %s: %w", what, id, thole.ErrNotFound) }

// enterThread checks the thread in the path, if there is one.
func (c *call) enterThread() error {
	id := c.r.PathValue("thread")
	if id == "" {
		return nil
	}
	return c.mayEnter(id)
}

// mayEnter checks a thread of the call's space that the request names against
// the grant and the thread's privacy.
func (c *call) mayEnter(id string) error {
	if !c.scope.Thread(id) {
		return fmt.Errorf("%w: the token is for other threads", problem.ErrForbidden)
	}
	if err := thole.CheckID("thrd", id); err != nil {
		return err
	}
	switch hidden := c.private().hidesThread(id); {
	case hidden && c.worksIn(id): // a worker knows the thread
		return fmt.Errorf("%w: this is for the owner of thread %s and for admins", problem.ErrForbidden, id)
	case hidden:
		return absent("thread", id)
	}
	return nil
}

// mayName checks a run that the request names, in any thread. A hidden run is
// ErrNotFound.
func (c *call) mayName(id string) error {
	if err := thole.CheckID("run", id); err != nil {
		return err
	}
	if c.private().hidesRun(id) {
		return absent("run", id)
	}
	return nil
}

// hidesThread reports whether the thread is hidden from the caller. A thread that
// never existed is hidden too.
func (p *privacy) hidesThread(id string) bool {
	if p == nil {
		return false
	}
	hidden, known := p.threads[id]
	if !known {
		hidden = !p.scope.Thread(id) || p.isHidden(id) && !(p.c.op.forWorkers() && p.c.worksIn(id))
		keepOf(p.threads, id, hidden)
	}
	return hidden
}

// hidesRun reports whether the run's thread is hidden from the caller. A run that does
// not exist is hidden too.
func (p *privacy) hidesRun(id string) bool {
	if p == nil {
		return false
	}
	in, known := p.runs[id]
	if !known {
		r, err := run.In(p.space, nil).Peek(p.c.r.Context(), id)
		if err != nil {
			// A run that does not exist costs as much work as a hidden one, so that
			// the time an answer takes discloses nothing.
			p.isHidden("thrd_" + strings.TrimPrefix(id, "run_"))
			return true
		}
		in = r.Thread
		keepOf(p.runs, id, in)
	}
	return p.hidesThread(in)
}

// keepOf adds a value to a cache of bounded size.
func keepOf[V any](kept map[string]V, id string, v V) {
	if len(kept) > 10_000 { // dropped values are looked up again
		clear(kept)
	}
	kept[id] = v
}

// isHidden reports whether a thread is hidden from the caller, by the thread's head or,
// if it has been deleted, by its final state. When it cannot tell, it returns true.
func (p *privacy) isHidden(id string) bool {
	if p == nil {
		return false
	}
	t, err := thread.In(p.space).Get(p.c.r.Context(), id)
	if err == nil && p.mayKnow(t.Visibility, t.Owner) {
		return false
	}
	// Read the final state even if there is a head: see hidesRun.
	last, lastErr := p.final(id)
	if err == nil || !errors.Is(err, thole.ErrNotFound) || lastErr != nil || last == nil {
		return true
	}
	return !p.mayKnow(last.Visibility, last.Owner)
}

// mayKnow reports whether the caller may know of a thread with this visibility and
// owner.
func (p *privacy) mayKnow(visibility, owner string) bool {
	return p == nil || visibility != thread.Private || owner == p.c.actor
}

// final returns the last head of a thread that was destroyed or expired; nil if there
// is none.
func (p *privacy) final(id string) (*thread.Thread, error) {
	page, err := p.space.Read(p.c.r.Context(), thole.ReadQuery{
		Stream: thread.Key(id), Types: []string{"thread.destroyed", "thread.expired"}, Backward: true, Limit: 1,
	})
	if err != nil || len(page.Events) == 0 {
		return nil, err
	}
	var end thole.Expired
	if err := page.Events[0].As(&end); err != nil {
		return nil, err
	}
	t := new(thread.Thread)
	return t, journal.Decode("final state of thread "+id, end.Value, t)
}

// hides reports whether e is hidden from the caller.
func (p *privacy) hides(e *thole.Event) bool {
	if p == nil {
		return false
	}
	if e.Stream == decision.Stream {
		return p.hidesDecisionEvent(e)
	}
	return p.hidesStream(e.Stream)
}

// hidesStream reports whether a stream belongs to a thread that is hidden from the
// caller, or to the kernel, whose streams only admins see.
func (p *privacy) hidesStream(stream string) bool {
	if p == nil {
		return false
	}
	id, ok := threadOf(stream)
	return ok && p.hidesThread(id) || thole.Reserved(stream)
}

// threadOf returns the thread that a stream or a key belongs to; those that begin with
// thread/<id> or app/thread/<id> belong to one. The id is "", which is hidden, for
// app/thread, in which earlier versions wrote events about any thread.
func threadOf(name string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(name, "app/")+"/", "thread/")
	id, _, _ = strings.Cut(rest, "/")
	return id, ok
}

// hidesDecision reports whether a decision belongs to a thread, or to a run in a
// thread, that is hidden from the caller. A run may have a name that is not an id:
// then it belongs to no thread.
func (p *privacy) hidesDecision(d decision.Plan) bool {
	if p == nil {
		return false
	}
	return d.Thread != "" && p.hidesThread(d.Thread) || thole.CheckID("run", d.Run) == nil && p.hidesRun(d.Run)
}

func (p *privacy) hidesDecisionEvent(e *thole.Event) bool {
	var d decision.Decision
	if json.Unmarshal(e.Data, &d) != nil || d.ID == "" {
		return false // redacted, or written by an application
	}
	if e.Type != decision.TypePlanned {
		made, err := decision.In(p.space).Get(p.c.r.Context(), d.ID)
		if err != nil {
			return true
		}
		d = made
		p.looked += len(d.Action) + len(d.Decision) + len(d.Rationale) + len(d.Input) + len(d.Result)
	}
	return p.hidesDecision(d.Plan)
}

// maskEvent returns e with hidden ids masked: in its cause and refs, and in its data
// if that is Thole's own and names runs or threads. It leaves the text of people
// alone. It reports whether anything changed, and does not write to e's bytes.
func (p *privacy) maskEvent(e *thole.Event) (thole.Event, bool) {
	out := *e
	if p == nil {
		return out, false
	}
	out.Cause = p.mask(e.Cause)
	out.Refs = slices.Clone(e.Refs)
	for i, ref := range e.Refs {
		out.Refs[i] = p.mask(ref)
	}
	data := string(e.Data)
	switch noun, _, _ := strings.Cut(e.Type, "."); noun {
	case "run", "lock", "thread", "decision":
		if data = p.mask(data); data != string(e.Data) {
			out.Data = json.RawMessage(data)
		}
	}
	changed := out.Cause != e.Cause || !slices.Equal(out.Refs, e.Refs) || data != string(e.Data)
	return out, changed
}
