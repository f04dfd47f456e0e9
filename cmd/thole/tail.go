package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal/problem"
)

// tail is a watch from outside: over HTTP with --server, else on the store.
type tail struct {
	app   *app
	types []string
	after string
	from  bool // --after was given; "" then means from the oldest
	live  bool // show broadcasts too
	away  bool // it was said that the server does not answer
	print func(space string, e thole.Event) error
	warn  func(text string)
}

func tailCommand(a *app) *cobra.Command {
	t := &tail{app: a}
	c := &cobra.Command{
		Use:   "tail SPACE",
		Short: "Follow a space's events as they happen",
		Long: `Follow a space. Without --after, begin now; with an empty --after=, begin with the
oldest event that is kept; with a position, go on after it. With --server, watch
through a running server and reconnect without a gap when the line breaks;
otherwise open the store itself. --live also shows what is never stored, such as
text while it streams; of several servers on one SQLite file or folder, name the one in
which the run works.`,
		Example: `  thole tail project:sample --after=
  thole tail project:sample --types run.*,tool.* --server ` + defaultURL,
		Args: cobra.ExactArgs(1),
	}
	a.fromServer(c, "the right to read the space")
	c.Flags().StringSliceVar(&t.types, "types", nil, "only these types; noun.* matches any verb")
	c.Flags().StringVar(&t.after, "after", "", "begin after this position; empty: with the oldest event")
	c.Flags().BoolVar(&t.live, "live", false, "show broadcasts too")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkTypes(t.types); err != nil {
			return err
		}
		t.from = cmd.Flags().Changed("after")
		p := a.printer(cmd.OutOrStdout())
		t.print = func(space string, e thole.Event) error {
			if e.Position.IsZero() && !t.live {
				return nil
			}
			return p.event(space, e)
		}
		t.warn = func(text string) { _ = sayf(cmd.ErrOrStderr(), "thole: %s\n", text) }
		var err error
		if a.server != "" {
			if a.server, err = serverURL(a.server); err != nil {
				return err
			}
			err = t.overHTTP(cmd.Context(), args[0])
		} else {
			err = a.reading(cmd.Context(), func(s *thole.Store) error { return t.onStore(cmd.Context(), s.Space(args[0])) })
		}
		if cmd.Context().Err() != nil {
			return nil // the user stopped it
		}
		return err
	}
	return c
}

func (t *tail) onStore(ctx context.Context, sp *thole.Space) error {
	opts := &thole.WatchOptions{Types: t.types, Oldest: t.from && t.after == ""}
	var err error
	if opts.After, err = thole.ParsePosition(t.after); err != nil {
		return fmt.Errorf("--after: %w", err)
	}
	text, err := emptiness(ctx, sp)
	if err != nil {
		return err
	}
	if text != "" {
		t.warn(text + "; waiting for the first event")
	}
	w, err := sp.Watch(ctx, opts)
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		ds, err := w.Next(ctx)
		if trimmed := new(thole.TrimmedError); errors.As(err, &trimmed) && trimmed.Adopted {
			t.warn(err.Error())
			continue
		}
		if err != nil {
			return err
		}
		for _, d := range ds {
			if err := t.print(sp.Name(), d.Event); err != nil {
				return err
			}
		}
	}
}

// errEnded is a stream that the server ended and said why.
var errEnded = errors.New("the server ended the stream")

// errRefused is an answer that trying again will not change.
var errRefused = errors.New("the server refused")

func (t *tail) overHTTP(ctx context.Context, space string) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		before := t.after
		connected, err := t.stream(ctx, space)
		if ctx.Err() != nil || errors.Is(err, errRefused) {
			return err
		}
		if t.after != before {
			wait = 100 * time.Millisecond
		}
		if !connected && wait > time.Second && !t.away { // not for the moment in which a server restarts
			t.warn("no connection; trying again: " + err.Error())
			t.away = true
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stream reads one connection to its end, and reports whether there was one. It
// moves t.after on, so that the next connection resumes there.
func (t *tail) stream(ctx context.Context, space string) (connected bool, err error) {
	events := t.app.server + "/v1/spaces/" + url.PathEscape(space) + "/events"
	q := url.Values{}
	if t.from {
		q.Set("after", t.after)
	}
	if len(t.types) > 0 {
		q.Set("types", strings.Join(t.types, ","))
	}
	resp, err := t.get(ctx, events+"?"+q.Encode(), "text/event-stream")
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		var p problem.Problem
		if json.Unmarshal(text, &p) == nil && p.Detail != "" {
			text = []byte(p.Detail)
		}
		err = fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(text)))
		if resp.StatusCode == http.StatusUnauthorized {
			err = fmt.Errorf("%w; give one to this command with --token or THOLE_TOKEN", err)
		}
		if resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
			err = fmt.Errorf("%w: %w", errRefused, err)
		}
		return false, err
	}
	if resp.Header.Get("Thole-Position") == "" && t.after == "" && (!t.from || t.isEmpty(ctx, events)) {
		t.warn("nothing is in " + space + " yet; waiting for the first event")
	}
	if !t.from {
		t.after, t.from = resp.Header.Get("Thole-Position"), true // where "now" is
	}
	if t.away {
		t.warn("connected again")
		t.away = false
	}
	return true, t.frames(space, resp.Body)
}

func (t *tail) get(ctx context.Context, url, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errRefused, err)
	}
	req.Header.Set("Accept", accept)
	if t.app.token != "" {
		req.Header.Set("Authorization", "Bearer "+t.app.token)
	}
	return http.DefaultClient.Do(req)
}

// isEmpty reports whether there are no events yet. A stream from the oldest event does
// not say so: it has no Thole-Position in any case.
func (t *tail) isEmpty(ctx context.Context, events string) bool {
	resp, err := t.get(ctx, events+"?limit=1", "application/json")
	if err != nil {
		return false // the stream learns why
	}
	defer resp.Body.Close()
	var page struct {
		Items []json.RawMessage `json:"items"`
		Next  string            `json:"next_cursor"`
	}
	return json.NewDecoder(resp.Body).Decode(&page) == nil && resp.StatusCode == http.StatusOK && len(page.Items) == 0 && page.Next == ""
}

// frames prints the events of an SSE body.
func (t *tail) frames(space string, body io.Reader) error {
	r := bufio.NewReader(body)
	id, event, data := "", "", ""
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		line = strings.TrimRight(line, "\r\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case field == "id":
			id = value
		case field == "event":
			event = value
		case field == "data":
			data += value
		case line == "":
			if event == "error" { // the last frame; who comes again learns whether to
				var p struct{ Detail string }
				if json.Unmarshal([]byte(data), &p) == nil {
					t.warn(p.Detail)
				}
				return errEnded
			}
			if data != "" {
				var e thole.Event
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					return fmt.Errorf("%w: a frame is not an event: %v", errRefused, err)
				}
				if err := t.print(space, e); err != nil {
					return fmt.Errorf("%w: %w", errRefused, err)
				}
			}
			if id != "" {
				t.after, t.from = id, true
			}
			id, event, data = "", "", ""
		}
	}
}
