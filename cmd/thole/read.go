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
		Long: `Without arguments, list the spaces. With a space, list its records. With a key,
print that record; a key that ends in / lists the records below it.`,
		Args: cobra.MaximumNArgs(2),
	}
	limit := c.Flags().Int("limit", 1000, "print at most this many")
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
			prefix := ""
			if len(args) == 2 {
				prefix = args[1]
			}
			return printRecords(cmd, p, s.Space(args[0]), prefix, *limit)
		})
	}
	return c
}

func printSpaces(cmd *cobra.Command, p printer, s *thole.Store, limit int) error {
	after := ""
	for limit > 0 {
		names, away := s.Spaces(cmd.Context(), thole.SpacesQuery{After: after, Limit: min(limit, 500)})
		if away != nil && !errors.As(away, new(*thole.UnreachableError)) || len(names) == 0 {
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
		after, limit = names[len(names)-1], limit-len(names)
	}
	return nil
}

func printRecord(cmd *cobra.Command, p printer, sp *thole.Space, key string) error {
	r, err := sp.Get(cmd.Context(), key)
	if err != nil {
		return err
	}
	if !r.Exists() {
		return fmt.Errorf("%s in %s: %w", key, sp.Name(), thole.ErrNotFound)
	}
	return p.print(r, "%s", r.Value)
}

func printRecords(cmd *cobra.Command, p printer, sp *thole.Space, prefix string, limit int) error {
	for r, err := range sp.Records(cmd.Context(), prefix) {
		if err != nil {
			return err
		}
		if limit--; limit < 0 {
			return nil
		}
		if err := p.print(r, "%-60s %s  %s", r.Key, r.Version, clip(r.Value, 100)); err != nil {
			return err
		}
	}
	return nil
}

func logCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "log SPACE",
		Short: "Show a space's journal, newest events last",
		Args:  cobra.ExactArgs(1),
	}
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
			return err
		}
		return a.reading(cmd.Context(), func(s *thole.Store) error {
			var events []thole.Event
			for e, err := range s.Space(args[0]).Events(cmd.Context(), q) {
				if err != nil {
					return err
				}
				if len(events) == *limit {
					break
				}
				events = append(events, e)
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
