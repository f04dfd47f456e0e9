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
)

// maxWatched bounds how many spaces one connection may watch.
const maxWatched = 32

// watchParams are the query parameters of every event stream.
func watchParams() []oldParam {
	return []oldParam{
		{"after", "string", "resume after this position; empty: from the oldest event; absent: from now. Last-Event-ID goes before it"},
		{"types", "string", "only these types, separated by commas; noun.* stands for any verb"},
		{"channel", "string", "messages: the conversation (thread.*, message.*, run.*, tool.*); sync: everything else"},
	}
}

// resume returns the cursor that the client goes on from. from says whether
// there is one; an empty one means the oldest event.
func (c *call) resume() (cursor string, from bool) {
	if id := c.r.Header.Get("Last-Event-ID"); id != "" {
		return id, true
	}
	return c.arg("after"), c.has("after")
}

// filter reads types and channel. Whoever watches brings more than types (see
// [call.watchOptions]) and sends what keep keeps; nil keeps everything.
func (c *call) filter() (types []string, keep func(*thole.Delivery) bool, err error) {
	if types = c.list("types"); len(types) > 0 {
		defer func() {
			channel := keep
			keep = func(d *thole.Delivery) bool {
				return (channel == nil || channel(d)) && journal.MatchType(types, d.Type)
			}
		}()
	}
	switch ch := c.arg("channel"); ch {
	case "":
	case "messages":
		keep = func(d *thole.Delivery) bool { return isConversation(d.Type) }
	case "sync":
		keep = func(d *thole.Delivery) bool { return !isConversation(d.Type) }
	default:
		err = invalid("channel", "%.40q is neither sync nor messages", ch)
	}
	return types, keep, err
}

func isConversation(typ string) bool {
	noun, _, _ := strings.Cut(typ, ".")
	return slices.Contains([]string{"thread", "message", "run", "tool"}, noun)
}

// visible narrows streams to what the scope shows: the patterns to watch. No
// patterns at all mean that nothing is visible.
func visible(scope auth.Scope, streams []string) ([]string, error) {
	if !scope.Narrowed || len(streams) == 0 {
		return append(streams, scope.Streams()...), nil
	}
	for _, s := range streams {
		if !shows(scope.Streams(), s) {
			return nil, fmt.Errorf("%w: the token does not show the stream %.80s", ErrForbidden, s)
		}
	}
	return streams, nil
}

// shows reports whether a stream is one of patterns, or there are none.
func shows(patterns []string, stream string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		prefix, wild := strings.CutSuffix(p, "*")
		return p == stream || wild && strings.HasPrefix(stream, prefix)
	})
}

// watchSpace answers with the events of the call's space, of the given streams
// or all.
func (c *call) watchSpace(streams ...string) error {
	opts, err := c.watchOptions(streams)
	if err != nil {
		return err
	}
	cursor, from := c.resume()
	opts.Oldest = from && cursor == ""
	if opts.After, err = thole.ParsePosition(cursor); err != nil {
		return invalid("after", "%.60q is not a position", cursor)
	}
	_, keep, err := c.filter()
	if err != nil {
		return err
	}
	w, err := c.attachTo(c.space, opts)
	if err != nil {
		return err
	}
	s := &stream{c: c, feed: single{w}, keep: keep, privacy: []*privacy{c.private().hearing(opts.Streams)}}
	return s.run()
}

// attachTo begins to watch a space, if there is room for another watcher.
func (c *call) attachTo(sp *thole.Space, opts *thole.WatchOptions) (*thole.Watch, error) {
	if limit := c.api.opts.MaxWatchers; limit > 0 && sp.Watchers() >= limit {
		return nil, fmt.Errorf("%w: %.80s has %d watchers, as many as may be", ErrRateLimited, sp.Name(), limit)
	}
	return sp.Watch(c.ctx, opts)
}

func (c *call) watchOptions(streams []string) (*thole.WatchOptions, error) {
	types, _, err := c.filter()
	if err != nil {
		return nil, err
	}
	if len(types) > 0 {
		types = append(types, privacyTypes...)
	}
	streams, err = visible(c.scope, streams)
	return &thole.WatchOptions{Types: types, Streams: streams}, err
}

// watchMany answers with the events of several spaces: GET /v1/events?watch=a,b.
func (c *call) watchMany() error {
	spaces, err := spaceNames("watch", c.list("watch"))
	if err != nil {
		return err
	}
	cursor, from := c.resume()
	at := make(map[string]thole.Position)
	if cursor != "" {
		if at, err = parseCompound(cursor); err != nil {
			return err
		}
	}
	_, keep, err := c.filter()
	if err != nil {
		return err
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
		opts, err := c.watchOptions(nil)
		if err != nil {
			return abandon(err)
		}
		known := false
		opts.After, known = at[name]
		opts.Oldest = from && cursor == "" || known && opts.After.IsZero() // it was empty then
		w, err := c.attachTo(c.handle(name), opts)
		if err != nil {
			return abandon(err)
		}
		watches = append(watches, w)
		private = append(private, c.newPrivacy(c.handle(name)).hearing(opts.Streams))
	}
	feed := newMerged(c.r.Context(), spaces, watches)
	s := &stream{c: c, feed: feed, keep: keep, spaces: spaces, at: slices.Clone(feed.start), privacy: private}
	return s.run()
}

// spaceNames returns the spaces that a request names outside its path, in order and
// each once. A pattern is no name of a space, nor is a name of earlier versions that
// looks like one.
func spaceNames(field string, names []string) ([]string, error) {
	for i, name := range names {
		if err := journal.CheckSpaceName(name); errors.Is(err, thole.ErrInvalid) {
			return nil, invalid(fmt.Sprintf("%s[%d]", field, i), "%v", err)
		} else if err != nil {
			return nil, err
		}
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(names)))
	if len(distinct) == 0 || len(distinct) > maxWatched {
		return nil, invalid(field, "names %d spaces; 1 to %d are expected", len(distinct), maxWatched)
	}
	return distinct, nil
}

// mustStream answers a client that did not ask for an event stream where there
// is nothing else.
func (c *call) mustStream() (none, error) {
	return none{}, &statusError{http.StatusNotAcceptable, invalid("Accept", "must be text/event-stream here")}
}
