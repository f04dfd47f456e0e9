package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/journal/problem"
)

// A private thread is visible to its owner, to admins and to the workers of its runs.
// For everyone else the thread and all that belongs to it, such as its runs and
// decisions, do not exist: not under a path, not by an id in a request, not in lists,
// not in the events of the space. Shared data may name them, as a lock names its owner
// and an event its cause: there, the digits of their ids are replaced by zeros.
// Everything that this package shows of a space passes through a privacy.
//
// The concepts declare what belongs to which thread ([thole.Concepts.ThreadsOf]) and who
// may know of a thread ([thole.Concepts.MayKnow]); nothing here is about one concept.

// privacy decides what the caller may see of a space. It belongs to one request
// and is used by one goroutine at a time. The nil privacy hides nothing.
type privacy struct {
	c        *call
	space    *thole.Space // with the caller as actor
	concepts *thole.Concepts
	scope    auth.Scope
	threads  map[string]bool     // cache: whether a thread is hidden
	of       map[string][]string // cache: the threads of the record under a key, which never change
	hears    []string            // patterns of the streams that the caller watches; see [privacy.before]
	looked   int                 // bytes of records read since the last call of took
	masked   int                 // number of ids looked up to mask texts
	zeroed   map[string]bool     // cache: whether an id in a text is hidden
	named    map[string]bool     // ids in the request; nil: not searched for yet
}

// newPrivacy returns nil if nothing is hidden from the caller.
func (c *call) newPrivacy(space *thole.Space) *privacy {
	if c.isAdmin(space.Name()) {
		return nil
	}
	p := &privacy{c: c, space: space.As(c.actor), concepts: c.api.store.Concepts(), scope: c.scope}
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
		p.threads, p.of, p.zeroed = make(map[string]bool), make(map[string][]string), make(map[string]bool)
	}
}

// took returns how many bytes of records were read since its last call.
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
		maps.DeleteFunc(p.threads, func(id string, _ bool) bool { return !shows(p.hears, threadStream(id)) })
	}
	for _, d := range batch {
		if slices.Contains(p.concepts.MayKnowTypes(), d.Type) {
			id, _ := p.concepts.StreamThread(d.Stream)
			delete(p.threads, id)
		}
	}
}

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

// mayAddTo is mayEnter for a request that adds to the thread, which therefore must not
// have ended: those who could know of a thread still may, afterwards. A repeat under an
// idempotency key adds nothing.
func (c *call) mayAddTo(id string) error {
	if err := c.mayEnter(id); err != nil || id == c.addsTo {
		return err
	}
	if _, repeated, err := c.space.Earlier(c.ctx); repeated || err != nil {
		return err
	}
	rec, err := c.space.Get(c.ctx, threadStream(id))
	if err == nil && !rec.Exists() {
		return absent("thread", id)
	}
	c.addsTo = id
	return err
}

// everWas returns ErrNotFound for a thread that never was, of which no event tells either.
// For those from whom threads are hidden, [call.mayEnter] has refused it.
func (c *call) everWas(id string) error {
	if c.private() != nil {
		return nil
	}
	rec, err := c.space.Get(c.ctx, threadStream(id))
	if err != nil || rec.Exists() {
		return err
	}
	for _, err := range c.space.Events(c.ctx, thole.ReadQuery{Stream: threadStream(id), Limit: 1}) {
		return err
	}
	return absent("thread", id)
}

// visible returns the patterns of the streams that the call reads or watches: the given
// ones, or if there are none, all that its scope has. A token that is narrowed to threads
// hears the streams of these threads only; it gets ErrForbidden for others.
func (c *call) visible(streams []string) ([]string, error) {
	if !c.scope.Narrowed {
		return streams, nil
	}
	var own []string
	for _, id := range c.scope.Threads {
		own = append(own, c.api.store.Concepts().StreamsOf(id)...)
	}
	for _, s := range streams {
		if !shows(own, s) {
			return nil, fmt.Errorf("%w: the token does not show the stream %.80s", problem.ErrForbidden, s)
		}
	}
	if len(streams) == 0 {
		streams = own
	}
	if len(streams) == 0 { // no streams would mean all
		return nil, fmt.Errorf("%w: the token is for threads, which have no streams here", problem.ErrForbidden)
	}
	return streams, nil
}

// mayName checks a record, such as a run, that the request names by its id, in any
// thread. One that is hidden is ErrNotFound.
func (c *call) mayName(prefix, id string) error {
	if err := thole.CheckID(prefix, id); err != nil {
		return err
	}
	if c.private().hidesRecord(c.api.store.Concepts().KeyOfID(id)) {
		return absent(prefix, id)
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

// hidesRecord reports whether one of the records under keys is hidden from the caller. So
// is a record that does not exist.
func (p *privacy) hidesRecord(keys ...string) bool {
	return p != nil && slices.ContainsFunc(keys, func(key string) bool {
		threads, known := p.of[key]
		if !known {
			var err error
			if threads, err = p.concepts.ThreadsOf(key, p.read); err != nil {
				// A record that does not exist costs as much work as a hidden one, so
				// that the time an answer takes discloses nothing.
				p.isHidden(thole.NewID("thrd"))
				return true
			}
			keepOf(p.of, key, threads)
		}
		return slices.ContainsFunc(threads, p.hidesThread)
	})
}

func (p *privacy) read(key string) (thole.Record, error) {
	rec, err := p.space.Get(p.c.r.Context(), key)
	p.looked += len(rec.Value)
	return rec, err
}

// keepOf adds a value to a cache of bounded size.
func keepOf[V any](kept map[string]V, id string, v V) {
	if len(kept) > 10_000 { // dropped values are looked up again
		clear(kept)
	}
	kept[id] = v
}

// isHidden reports whether the actor may not know of a thread, whatever the grants say.
// When it cannot tell, it returns true.
func (p *privacy) isHidden(id string) bool {
	if p == nil {
		return false
	}
	may, err := p.concepts.MayKnow(p.c.r.Context(), p.space, id)
	return err != nil || !may
}

// hides reports whether e is hidden from the caller.
func (p *privacy) hides(e *thole.Event) bool {
	if p == nil {
		return false
	}
	id, known := p.concepts.StreamThread(e.Stream)
	if !known || id != "" {
		return !known || p.hidesThread(id)
	}
	of, known := p.concepts.EventOf(e)
	return !known || p.hidesRecord(of...)
}

// hidesStream reports whether a stream is hidden from the caller. Events of other streams
// may be hidden one by one.
func (p *privacy) hidesStream(stream string) bool {
	if p == nil {
		return false
	}
	id, known := p.concepts.StreamThread(stream)
	return !known || id != "" && p.hidesThread(id)
}

// maskEvent returns e with hidden ids masked: in its cause and refs, and in its data if
// that may name others. It leaves the text of people alone, and what programs act on. It reports whether anything
// changed, and does not write to e's bytes.
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
	changed := out.Cause != e.Cause || !slices.Equal(out.Refs, e.Refs)
	if t := p.concepts.EventType(e.Type); t != nil && t.Names || t == nil && !strings.HasPrefix(e.Stream, "app/") {
		if data := p.maskData(string(e.Data), p.c.api.shown[e.Type]); data != string(e.Data) {
			out.Data, changed = json.RawMessage(data), true
		}
	}
	return out, changed
}
