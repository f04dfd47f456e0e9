package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole"
)

func getCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "get [SPACE [KEY]]",
		Short: "Show spaces, a space's records, or one record",
		Long: `Without arguments, list the spaces. With a space, list its records, without those that
Thole keeps for itself (indexes, leases, parts of files; --all shows them too). With a key,
print that record; a key that ends in / lists the records below it.`,
		Example: `  thole get                              # which spaces there are
  thole get project:sample               # what is in one
  thole get project:sample thread/       # its conversations
  thole get project:sample --server ` + defaultURL,
		Args: cobra.MaximumNArgs(2),
	}
	limit := c.Flags().Int("limit", 1000, "print at most this many")
	all := c.Flags().Bool("all", false, "also list the records that Thole keeps for itself")
	a.fromServer(c, "admin rights on what is read")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if *limit < 1 {
			return fmt.Errorf("%w: --limit %d is less than 1", thole.ErrInvalid, *limit)
		}
		p := a.printer(cmd.OutOrStdout())
		return a.reading(cmd.Context(), func(s *thole.Store) error {
			switch {
			case len(args) == 0:
				return printSpaces(cmd, p, s, *limit)
			case len(args) == 2 && !strings.HasSuffix(args[1], "/"):
				return printRecord(cmd, p, s.Space(args[0]), args[1])
			}
			sp, prefix := s.Space(args[0]), ""
			if len(args) == 2 {
				prefix, *all = args[1], true
			}
			if err := mustHold(cmd.Context(), sp); err != nil {
				return err
			}
			return printRecords(cmd, p, sp, prefix, *limit, *all)
		})
	}
	return c
}

func printSpaces(cmd *cobra.Command, p printer, s *thole.Store, limit int) error {
	after := ""
	for left := limit; left > 0; {
		names, away := s.Spaces(cmd.Context(), thole.SpacesQuery{After: after, Limit: min(left, 500)})
		if away != nil && !errors.As(away, new(*thole.UnreachableError)) || len(names) == 0 {
			if away == nil && left == limit {
				_ = sayf(cmd.ErrOrStderr(), "no space holds anything yet\n")
			}
			return away
		}
		heads, err := s.Heads(cmd.Context(), names...)
		if err != nil && !errors.As(err, new(*thole.UnreachableError)) {
			return err
		}
		for _, h := range heads {
			if h.Space == "" {
				continue
			}
			if err := p.print(h, "%-40s %s", h.Space, h.Last); err != nil {
				return err
			}
		}
		after, left = names[len(names)-1], left-len(names)
	}
	return nil
}

func printRecord(cmd *cobra.Command, p printer, sp *thole.Space, key string) error {
	r, err := sp.Get(cmd.Context(), key)
	if err != nil {
		return err
	}
	if !r.Exists() {
		if err := mustHold(cmd.Context(), sp); err != nil {
			return err
		}
		return keyNotFound(cmd.Context(), sp, key)
	}
	return p.print(r, "%s", r.Value)
}

// printRecords prints the records under prefix; without all, not those that Thole keeps
// for itself. The rest of a page whose end is among these, such as the parts of a large
// file, is not read.
func printRecords(cmd *cobra.Command, p printer, sp *thole.Space, prefix string, limit int, all bool) error {
	const page = 100
	for q, hid := (thole.ListQuery{Prefix: prefix, Limit: page}), false; ; {
		recs, err := sp.List(cmd.Context(), q)
		if err != nil {
			return err
		}
		for _, r := range recs {
			q.After = r.Key
			if !all && ownKey(sp.Store(), r.Key) {
				hid = true
				continue
			}
			if limit--; limit < 0 {
				return nil
			}
			if err := p.print(r, "%-60s %s  %s", r.Key, r.Version, clip(r.Value, 100)); err != nil {
				return err
			}
		}
		if len(recs) < page {
			if hid {
				_ = sayf(cmd.ErrOrStderr(), "without the records that Thole keeps for itself; --all shows them too\n")
			}
			return nil
		}
		if noun, _, _ := strings.Cut(q.After, "/"); !all && ownNoun(sp.Store(), noun) {
			q.After = max(q.After, endOf(noun))
		}
	}
}

// ownKey reports whether Thole keeps the record under key for itself.
func ownKey(s *thole.Store, key string) bool {
	if t, _ := s.Concepts().Record(key); t != nil {
		return t.Private
	}
	noun, _, _ := strings.Cut(key, "/")
	return ownNoun(s, noun)
}

// ownNoun reports whether all records whose keys begin with noun are such.
func ownNoun(s *thole.Store, noun string) bool {
	known, private := false, true
	declares := func(key string, own bool) {
		if first, _, _ := strings.Cut(key, "/"); first == noun {
			known, private = true, private && own
		}
	}
	for _, c := range s.Concepts().All() {
		for _, r := range c.Records {
			declares(r.Key, r.Private)
		}
		for _, l := range c.Leases {
			declares(l.Base, true)
		}
	}
	return known && private
}

// endOf is a key behind all that begin with noun.
func endOf(noun string) string { return noun + "/\U0010FFFF" }

func logCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "log SPACE",
		Short: "Show a space's journal, newest events last",
		Long: `Show the newest events of a space's journal, or, with --after, those behind a position.
To follow a space, see ` + "`thole tail`" + `.`,
		Example: `  thole log project:sample --limit 10
  thole log project:sample --types run.*,message.completed
  thole log project:sample --stream thread/thrd_… --server ` + defaultURL,
		Args: cobra.ExactArgs(1),
	}
	a.fromServer(c, "admin rights on the space")
	limit := c.Flags().Int("limit", 50, "print at most this many")
	stream := c.Flags().String("stream", "", "only this stream")
	types := c.Flags().StringSlice("types", nil, "only these types; noun.* matches any verb")
	actor := c.Flags().String("actor", "", "only what this actor did")
	after := c.Flags().String("after", "", "begin after this position and go forward")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if *limit < 1 {
			return fmt.Errorf("%w: --limit %d is less than 1", thole.ErrInvalid, *limit)
		}
		p := a.printer(cmd.OutOrStdout())
		q := thole.ReadQuery{Stream: *stream, Types: *types, Actor: *actor, Backward: *after == ""}
		var err error
		if q.After, err = thole.ParsePosition(*after); err != nil {
			return fmt.Errorf("--after: %w", err)
		}
		if err := checkTypes(*types); err != nil {
			return err
		}
		return a.reading(cmd.Context(), func(s *thole.Store) error {
			sp := s.Space(args[0])
			if err := mustHold(cmd.Context(), sp); err != nil {
				return err
			}
			var events []thole.Event
			for e, err := range sp.Events(cmd.Context(), q) {
				if err != nil {
					return err
				}
				if len(events) == *limit {
					break
				}
				events = append(events, e)
			}
			if len(events) == 0 && *stream != "" && !cmd.Flags().Changed("types") && *actor == "" && q.Backward {
				return streamNotFound(cmd.Context(), sp, *stream)
			}
			if len(events) == 0 {
				_ = sayf(cmd.ErrOrStderr(), "no event is kept that fits\n")
			}
			if q.Backward {
				slices.Reverse(events)
			}
			for _, e := range events {
				if err := p.event(args[0], e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return c
}
