// Command thole runs and inspects Thole, the state layer for AI agents.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/backend"
)

func main() {
	supervisor := sandbox.Main() // this binary also supervises the agent's commands
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root(supervisor).ExecuteContext(ctx)
	stop()
	if err != nil {
		_ = sayf(os.Stderr, "thole: %v\n", err)
		if hint := hint(err); hint != "" {
			fmt.Fprintln(os.Stderr, hint)
		}
		os.Exit(1)
	}
}

// app is what the flags of all commands say.
type app struct {
	stores     []string // a DSN, or rules PATTERN=DSN
	server     string   // of commands that look: instead of the stores
	token      string   // for that server
	json       bool
	supervisor *sandbox.Supervisor
}

// defaultStore is the file of the store when --store is not given.
const defaultStore = ".thole/thole.db"

func root(supervisor *sandbox.Supervisor) *cobra.Command {
	a := &app{supervisor: supervisor}
	c := &cobra.Command{
		Use:   "thole",
		Short: "The state layer for AI agents",
		Long: `Thole keeps conversations, runs, documents, todos, locks, files and decisions of AI
agents durable, in order, and in sync with everyone who looks.

Every flag can be set by a variable: --listen is THOLE_LISTEN, and so on; one that
may be given more than once takes a line each.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return fromEnvironment(cmd.Flags())
		},
	}
	c.PersistentFlags().StringArrayVar(&a.stores, "store", []string{"sqlite:" + defaultStore}, "where the state lives: "+backend.Forms()+"; or, given several times, which spaces live where: 'user:*=DSN'; agent and dev on the project that you are in, without a .thole there, keep it in ~/.local/state/thole instead")
	c.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON even on a terminal")
	c.AddCommand(
		devCommand(a), serveCommand(a), agentCommand(a),
		tailCommand(a), getCommand(a), logCommand(a),
		doctorCommand(a), migrateCommand(a), tokenCommand(a), benchCommand(a), versionCommand(a),
	)
	refuseUnknown(c)
	sayUsage(c)
	return c
}

// refuseUnknown makes help and completion fail for what they do not know.
func refuseUnknown(c *cobra.Command) {
	c.InitDefaultHelpCmd()
	c.InitDefaultCompletionCmd()
	for _, sub := range c.Commands() {
		switch sub.Name() {
		case "help":
			sub.Args = func(_ *cobra.Command, args []string) error {
				_, _, err := c.Find(args)
				return err
			}
		case "completion":
			sub.Args, sub.RunE = cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// sayUsage makes a command that is used wrongly say how it is used.
func sayUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())
	})
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return fmt.Errorf("%w; usage: %s", err, cmd.UseLine())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		sayUsage(sub)
	}
}

// fromEnvironment sets the flags that were not given from THOLE_* variables.
func fromEnvironment(flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := "THOLE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		v, ok := os.LookupEnv(name)
		if !ok || f.Changed {
			return
		}
		values := []string{v}
		if f.Value.Type() == "stringArray" {
			values = strings.FieldsFunc(v, func(r rune) bool { return r == '\n' })
		}
		for _, v := range values {
			if err := flags.Set(f.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
	})
	return errors.Join(errs...)
}

// hint says what to do next about an error that has one common way out.
func hint(err error) string {
	switch {
	case errors.Is(err, thole.ErrTrimmed):
		return "That position is gone. Begin anew: `thole tail --after=` shows everything that is kept."
	case errors.As(err, new(*notOpenedError)):
		return "" // says what to do itself
	case errors.Is(err, thole.ErrCorrupt):
		return "Stop writing to it, keep a copy, and run `thole doctor`."
	case errors.Is(err, syscall.EADDRINUSE):
		return "Another program listens there. Pick another address with --listen, or a free port with --listen 127.0.0.1:0."
	}
	return ""
}
