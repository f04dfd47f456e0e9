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

// A private thread is its owner's. To everyone else but admins, and the workers
// of its runs, there is no such thread, nor are there its runs and decisions:
// not by a path, not by an id in a request, not in lists, and not in what is
// heard of the space. What is shared may name them, as a lock names its owner
// and an event its cause: there, the digits of their ids are zeros. All that
// this package shows of a space passes through one privacy.

// privacy decides what of a space the caller may know. It belongs to one request
// and is used by one goroutine at a time. The nil privacy hides nothing.
type privacy struct {
	c       *call
	space   *thole.Space
	scope   auth.Scope
	threads map[string]bool   // hidden? of those that were looked at
	runs    map[string]string // their threads, which never change
	hears   []string          // patterns of streams; see [privacy.before]
	looked  int               // bytes of decisions, since took was called
	masked  int               // ids that were looked up to mask texts
	zeroed  map[string]bool   // ids that were found to be hidden
	named   map[string]bool   // ids in the request; nil: not looked for yet
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

// private is the privacy of the call's space.
func (c *call) private() *privacy {
	if c.hidden == nil && c.space != nil {
		c.hidden = c.newPrivacy(c.space)
	}
	return c.hidden
}

// forget makes it look at everything anew.
func (p *privacy) forget() {
	if p != nil {
		p.threads, p.runs, p.zeroed = make(map[string]bool), make(map[string]string), make(map[string]bool)
	}
}

// took returns how many bytes of decisions were read since it was called last.
func (p *privacy) took() (bytes int) {
	if p != nil {
		bytes, p.looked = p.looked, 0
	}
	return bytes
}

// hearing returns p for a watch of streams that match one of patterns; none: all.
func (p *privacy) hearing(patterns []string) *privacy {
	if p != nil {
		p.hears = patterns
	}
	return p
}

// before is called with what is told next, in order, before any of it is judged.
// What may have changed since the caller was told something is looked at anew:
// threads that were changed, and those whose changes the caller's watch, of the
// streams p.hears, does not bring.
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

// changesPrivacy reports whether after an event of that type a thread may be for
// others than before.
func changesPrivacy(typ string) bool { return slices.Contains(privacyTypes, typ) }

// privacyTypes are the events that every watch needs, whether or not the caller
// wants to hear of them.
var privacyTypes = []string{"thread.created", "thread.updated"}

// absent is the error for what is not there, and for what the caller may not
// know to be there.
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
	case hidden && c.worksIn(id): // it knows the thread
		return fmt.Errorf("%w: this is for the owner of thread %s and for admins", problem.ErrForbidden, id)
	case hidden:
		return absent("thread", id)
	}
	return nil
}

// mayName checks a run that the request names, in whatever thread it is.
func (c *call) mayName(id string) error {
	if err := thole.CheckID("run", id); err != nil {
		return err
	}
	if c.private().hidesRun(id) {
		return absent("run", id)
	}
	return nil
}

// hidesThread reports whether the thread is not for the caller. One that never
// was is not, either.
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

// hidesRun reports whether the run's thread is not for the caller.
func (p *privacy) hidesRun(id string) bool {
	if p == nil {
		return false
	}
	in, known := p.runs[id]
	if !known {
		r, err := run.In(p.space, nil).Peek(p.c.r.Context(), id)
		if err != nil {
			// As much is done for a run that is not there as for one that is
			// hidden: how long an answer takes tells nothing.
			p.isHidden("thrd_" + strings.TrimPrefix(id, "run_"))
			return true
		}
		in = r.Thread
		keepOf(p.runs, id, in)
	}
	return p.hidesThread(in)
}

// keepOf keeps a value, within bounds.
func keepOf[V any](kept map[string]V, id string, v V) {
	if len(kept) > 10_000 { // what is dropped is looked at again
		clear(kept)
	}
	kept[id] = v
}

// isHidden looks at a thread's head; of one that is gone, at the final state
// that it left. When in doubt, it is hidden.
func (p *privacy) isHidden(id string) bool {
	if p == nil {
		return false
	}
	t, err := thread.In(p.space).Get(p.c.r.Context(), id)
	if err == nil && p.mayKnow(t.Visibility, t.Owner) {
		return false
	}
	// Also looked for if there is a head: see hidesRun.
	last, lastErr := p.final(id)
	if err == nil || !errors.Is(err, thole.ErrNotFound) || lastErr != nil || last == nil {
		return true
	}
	return !p.mayKnow(last.Visibility, last.Owner)
}

// mayKnow reports whether the caller may know of a thread.
func (p *privacy) mayKnow(visibility, owner string) bool {
	return p == nil || visibility != thread.Private || owner == p.c.actor
}

// final returns the head of a thread that was destroyed or expired; nil if
// there never was such a thread.
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

// hides reports whether e is not for the caller.
func (p *privacy) hides(e *thole.Event) bool {
	if p == nil {
		return false
	}
	if e.Stream == decision.Stream {
		return p.hidesDecisionEvent(e)
	}
	return p.hidesStream(e.Stream)
}

// hidesStream reports whether a stream is of a thread that is not for the
// caller, or the kernel's, which is for admins.
func (p *privacy) hidesStream(stream string) bool {
	if p == nil {
		return false
	}
	id, ok := threadOf(stream)
	return ok && p.hidesThread(id) || thole.Reserved(stream)
}

// threadOf returns the thread that a stream or a key belongs to: thread/<id>… and
// app/thread/<id>… do. It is "", which is hidden, for app/thread, in which an
// earlier version may have told what belongs to any thread.
func threadOf(name string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(name, "app/")+"/", "thread/")
	id, _, _ = strings.Cut(rest, "/")
	return id, ok
}

// hidesDecision reports whether a decision is of a thread, or of a run in a
// thread, that is not for the caller. A run may have a name that is no id: it is
// in no thread.
func (p *privacy) hidesDecision(d decision.Plan) bool {
	if p == nil {
		return false
	}
	return d.Thread != "" && p.hidesThread(d.Thread) || thole.CheckID("run", d.Run) == nil && p.hidesRun(d.Run)
}

func (p *privacy) hidesDecisionEvent(e *thole.Event) bool {
	var d decision.Decision
	if json.Unmarshal(e.Data, &d) != nil || d.ID == "" {
		return false // redacted, or an application's
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

// maskEvent masks what e says of where it came from and, where its data is
// Thole's own and names runs or threads, the data. What people wrote is left
// alone. It reports whether that changed anything; e's bytes are not written to.
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
