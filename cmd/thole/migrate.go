package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole/backend"
)

func migrateCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Bring a store to the format of this program",
		Long: `Bring the store that --store names to the format of this program, under a lock, in
one transaction. Opening a store does the same; this command lets you see what
would be done first.`,
		Example: "  thole migrate --dry-run --store sqlite:PATH",
		Args:    cobra.NoArgs,
	}
	dryRun := c.Flags().Bool("dry-run", false, "say what would be done and change nothing")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		p := a.printer(cmd.OutOrStdout())
		for _, store := range a.stores {
			_, dsn, _ := backend.CutRule(store)
			if err := migrate(cmd.Context(), p, dsn, *dryRun); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

// migrate brings one store up to date and prints what was done.
func migrate(ctx context.Context, p printer, dsn string, dryRun bool) error {
	name, _, _ := strings.Cut(dsn, ":") // a DSN may hold a password
	if at, err := backend.LocalStore(dsn); at != nil && err == nil {
		name = at.Path
	}
	steps, err := backend.Migrate(ctx, dsn, dryRun)
	if err != nil {
		return err
	}
	text, verb := name+" is up to date", "done: "
	if dryRun {
		verb = "would do: "
	}
	if len(steps) > 0 {
		text = verb + strings.Join(steps, "\n"+verb)
	}
	return p.print(map[string]any{"store": name, "steps": append([]string{}, steps...), "dry_run": dryRun}, "%s", text)
}
