package rest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/journal/problem"
)

// ofTypes and ofStreams are embedded by operations that select events. Each event is
// compared with each of the names, so their number has a limit.
type (
	ofTypes struct {
		Types []string `query:"types" max:"64" doc:"only these types, separated by commas; noun.* stands for any verb"`
	}
	ofStreams struct {
		Streams []string `query:"stream" max:"64" doc:"only these streams, separated by commas" example:"app/events"`
	}
)

// watching is embedded by operations that answer with an event stream.
type watching struct {
	ofTypes
	Channel string `query:"channel" enum:"messages|sync" doc:"messages: the conversation (thread.*, message.*, run.*, tool.*); sync: everything else"`
}

// keep returns a function that reports whether a delivery is sent; nil: all are. The
// watch delivers more types than those: see [watching.options].
func (in *watching) keep(concepts *thole.Concepts) func(*thole.Delivery) bool {
	if len(in.Types) == 0 && in.Channel == "" {
		return nil
	}
	return func(d *thole.Delivery) bool {
		return (in.Channel == "" || (in.Channel == "messages") == concepts.IsConversation(d.Type)) &&
			(len(in.Types) == 0 || journal.MatchType(in.Types, d.Type))
	}
}

// options returns the options for a watch of those streams that are in the call's scope.
func (in *watching) options(c *call, streams []string) (*thole.WatchOptions, error) {
	streams, err := c.visible(streams)
	opts := &thole.WatchOptions{Streams: streams}
	if len(in.Types) > 0 { // see [privacy.before]
		opts.Types = append(slices.Clone(in.Types), c.api.store.Concepts().MayKnowTypes()...)
	}
	return opts, err
}

// resuming is embedded by operations that answer with the events of one space.
type resuming struct {
	watching
	After       *journal.Position `query:"after" empty:"from the oldest event" doc:"resume after this position; empty: from the oldest event; absent: from now"`
	LastEventID journal.Position  `header:"Last-Event-ID" doc:"the id of the last event received; it takes precedence over after"`
}

// shows reports whether a stream matches one of patterns, or there are none.
func shows(patterns []string, stream string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		prefix, wild := strings.CutSuffix(p, "*")
		return p == stream || wild && strings.HasPrefix(stream, prefix)
	})
}

type watchSpaceIn struct {
	resuming
	ofStreams
}

func watchSpace(c *call, in watchSpaceIn) error { return in.watch(c, in.Streams) }

type watchThreadIn struct {
	ofThread
	resuming
}

func watchThread(c *call, in watchThreadIn) error {
	if err := c.everWas(in.Thread); err != nil {
		return err
	}
	return in.watch(c, []string{threadStream(in.Thread)})
}

// watch answers with the events of the call's space, in the given streams or all.
func (in *resuming) watch(c *call, streams []string) error {
	opts, err := in.options(c, streams)
	if err != nil {
		return err
	}
	switch {
	case !in.LastEventID.IsZero():
		opts.After = in.LastEventID
	case in.After != nil:
		opts.After, opts.Oldest = *in.After, in.After.IsZero()
	}
	w, err := c.attachTo(c.space, opts)
	if err != nil {
		return err
	}
	s := &stream{c: c, feed: single{w}, keep: in.keep(c.api.store.Concepts()), privacy: []*privacy{c.private().hearing(opts.Streams)}}
	return s.run()
}

// attachTo begins to watch a space. It fails if the space has Options.MaxWatchers
// watchers already.
func (c *call) attachTo(sp *thole.Space, opts *thole.WatchOptions) (*thole.Watch, error) {
	if limit := c.api.opts.MaxWatchers; limit > 0 && sp.Watchers() >= limit {
		return nil, fmt.Errorf("%w: %.80s has %d watchers, as many as may be", problem.ErrRateLimited, sp.Name(), limit)
	}
	return sp.Watch(c.ctx, opts)
}

type watchSpacesIn struct {
	watching
	Spaces      []string `query:"watch" required:"true" min:"1" max:"32" doc:"the spaces, separated by commas" example:"project:shop,user:42"`
	After       *string  `query:"after" empty:"from the oldest events" doc:"resume after this id of an event; empty: from the oldest events; absent: from now"`
	LastEventID string   `header:"Last-Event-ID" doc:"the id of the last event received; it takes precedence over after"`
}

// watchSpaces answers with the events of several spaces.
func watchSpaces(c *call, in watchSpacesIn) error {
	spaces, err := spaceNames("watch", in.Spaces)
	if err != nil {
		return err
	}
	field, cursor, oldest := "Last-Event-ID", in.LastEventID, false
	if cursor == "" && in.After != nil {
		field, cursor, oldest = "after", *in.After, *in.After == ""
	}
	at := make(map[string]thole.Position)
	if cursor != "" {
		if at, err = parseCompound(field, cursor); err != nil {
			return err
		}
	}
	watches := make([]*thole.Watch, 0, len(spaces))
	private := make([]*privacy, 0, len(spaces))
	abandon := func(err error) error {
		for _, w := range watches {
			w.Close()
		}
		return err
	}
	for _, name := range spaces {
		if c.scope, err = c.allowed(name, auth.Read); err != nil {
			return abandon(err)
		}
		opts, err := in.options(c, nil)
		if err != nil {
			return abandon(err)
		}
		known := false
		opts.After, known = at[name]
		opts.Oldest = oldest || known && opts.After.IsZero() // the space was empty when the cursor was made
		w, err := c.attachTo(c.handle(name), opts)
		if err != nil {
			return abandon(err)
		}
		watches = append(watches, w)
		private = append(private, c.newPrivacy(c.handle(name)).hearing(opts.Streams))
	}
	feed := newMerged(c.r.Context(), spaces, watches)
	s := &stream{c: c, feed: feed, keep: in.keep(c.api.store.Concepts()), spaces: spaces, at: slices.Clone(feed.start), privacy: private}
	return s.run()
}

// spaceNames returns the spaces that a request names outside its path, sorted and
// without duplicates. Patterns are ErrInvalid, as are spaces of earlier versions whose
// names look like patterns.
func spaceNames(field string, names []string) ([]string, error) {
	for i, name := range names {
		if err := journal.CheckSpaceName(name); errors.Is(err, thole.ErrInvalid) {
			at := field
			if strings.HasPrefix(field, "/") { // a pointer into the body
				at = fmt.Sprintf("%s/%d", field, i)
			}
			return nil, invalid(at, "%v", err)
		} else if err != nil {
			return nil, err
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names))), nil
}

// mustStream refuses a client that did not ask for an event stream, for an operation
// that has no other answer.
func mustStream(*call, watchSpacesIn) (none, error) { return none{}, notAcceptable() }

func notAcceptable() error {
	return &statusError{http.StatusNotAcceptable, invalid("Accept", "must be text/event-stream here")}
}
