package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend"
	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/backend/pgstore"
	"github.com/thole-dev/thole/backend/sqlitestore"
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
	var steps []string
	var err error
	scheme, rest, _ := strings.Cut(dsn, ":")
	name := scheme // a DSN may hold a password
	switch scheme {
	case "sqlite":
		name = rest
		steps, err = sqlitestore.Migrate(ctx, rest, dryRun)
	case "file":
		name = rest
		steps, err = filestore.Migrate(ctx, rest, dryRun)
	case "postgres", "postgresql":
		steps, err = pgstore.Migrate(ctx, dsn, dryRun)
	default:
		return fmt.Errorf("%w: a store of %s: has no format to migrate; sqlite:PATH, file:DIR and postgres://… have", thole.ErrInvalid, scheme)
	}
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		return p.print(map[string]any{"steps": []string{}}, "%s is up to date", name)
	}
	verb := "done"
	if dryRun {
		verb = "would do"
	}
	for _, s := range steps {
		if err := p.print(map[string]any{"step": s, "dry_run": dryRun}, "%s: %s", verb, s); err != nil {
			return err
		}
	}
	return nil
}
