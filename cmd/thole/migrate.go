package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/sqlitestore"
)

func migrateCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Bring a store to the format of this program",
		Long: `Bring the store that --store names to the format of this program, under a lock, in
one transaction. Opening a store does the same; this command lets you see what
would be done first.`,
		Args: cobra.NoArgs,
	}
	dryRun := c.Flags().Bool("dry-run", false, "say what would be done and change nothing")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		path, ok := strings.CutPrefix(a.store, "sqlite:")
		if !ok {
			return fmt.Errorf("%w: %s has no format to migrate", thole.ErrInvalid, a.store)
		}
		steps, err := sqlitestore.Migrate(cmd.Context(), path, *dryRun)
		if err != nil {
			return err
		}
		p := a.printer(cmd.OutOrStdout())
		if len(steps) == 0 {
			return p.print(map[string]any{"steps": []string{}}, "%s is up to date", path)
		}
		verb := "done"
		if *dryRun {
			verb = "would do"
		}
		for _, s := range steps {
			if err := p.print(map[string]any{"step": s, "dry_run": *dryRun}, "%s: %s", verb, s); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}
