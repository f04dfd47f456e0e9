package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent"
	"github.com/thole-dev/thole/agent/model"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/examples"
	"github.com/thole-dev/thole/state/run"
)

// coder is what the flags say of the reference agent.
type coder struct {
	app   *app
	dir   string
	model string
	lease time.Duration
	stall time.Duration
}

func (c *coder) flags(cmd *cobra.Command, dir string) {
	f := cmd.Flags()
	f.StringVar(&c.dir, "dir", dir, "the project that the agent works on")
	f.StringVar(&c.model, "model", "sample", "openai:MODEL[@URL], anthropic:MODEL[@URL], script:FILE, or the sample's script")
	f.DurationVar(&c.stall, "stall", time.Minute, "how long the model's service may send nothing before an attempt is given up")
	f.DurationVar(&c.lease, "lease", 30*time.Second, "how long a worker may be silent before its run counts as crashed")
}

// open makes the agent; the caller closes the sandbox.
func (c *coder) open(group *run.Group) (*agent.Agent, *sandbox.Sandbox, error) {
	var m model.Model
	var err error
	if c.model == "sample" {
		m, err = examples.Script()
	} else {
		m, err = model.Open(c.model, &model.Options{Stall: c.stall})
	}
	if err != nil {
		return nil, nil, err
	}
	sb, err := sandbox.Open(c.dir, &sandbox.Options{Supervisor: c.app.supervisor})
	if err != nil {
		return nil, nil, err
	}
	a, err := agent.New(agent.Options{
		Sandbox: sb, Models: map[string]model.Model{m.Name(): m},
		Runs: &run.Options{Lease: c.lease, Heartbeat: c.lease / 3, Group: group},
	})
	if err != nil {
		return nil, nil, errors.Join(err, sb.Close())
	}
	return a, sb, nil
}

// sampleDir is where dev lays out the sample project.
const sampleDir = "thole-sample"

func devCommand(a *app) *cobra.Command {
	s := &server{app: a}
	c := &coder{app: a}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Start everything here: a store, the API on loopback, an agent and a sample",
		Long: `Start a store (a SQLite file in .thole/), the API without tokens on loopback, and
the reference coding agent. Without --dir and --model the agent plays recorded
turns on a sample project that is laid out in ` + sampleDir + `/.`,
		Args: cobra.NoArgs,
	}
	s.flags(cmd)
	c.flags(cmd, sampleDir)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := onlyLoopback(s.listen); err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if c.dir == sampleDir {
			if _, err := examples.LayOut(c.dir); err != nil {
				return err
			}
		}
		group := &run.Group{}
		coding, sb, err := c.open(group)
		if err != nil {
			return err
		}
		f := &fleet{agent: coding, group: group, grace: s.grace}
		err = s.run(cmd.Context(), out, setup{
			runner: f,
			start: func(ctx context.Context, st *thole.Store, url string) error {
				devHelp(out, c.dir, url)
				return f.start(ctx, st)
			},
			stop: f.stop,
		})
		return errors.Join(err, sb.Close())
	}
	return cmd
}

// onlyLoopback refuses an address that others could reach without a token.
func onlyLoopback(listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("dev has no tokens, so it listens on loopback only, not on %q; use `thole serve`", host)
}

func devHelp(out io.Writer, dir, url string) {
	program := "thole"
	if strings.Contains(os.Args[0], "go-build") { // go run
		program = "go run ./cmd/thole"
	}
	fmt.Fprintf(out, `
The agent works on %s/ for runs in any space project:…
  follow everything   %s tail project:sample --server %s --after=
  the API             %s/docs
`, dir, program, url, url)
	if dir == sampleDir {
		fmt.Fprintf(out, "  the sample's turns  examples/turns.sh %s\n", url)
	}
}

// fleet is the agent's workers: one for each space that has had a run.
type fleet struct {
	agent *agent.Agent
	group *run.Group
	grace time.Duration

	mu     sync.Mutex
	ctx    context.Context // set by start; ends with stop
	cancel context.CancelFunc
	store  *thole.Store
	spaces map[string]bool
	wg     sync.WaitGroup
}

// start takes up the work that waits in the store.
func (f *fleet) start(ctx context.Context, st *thole.Store) error {
	f.mu.Lock()
	f.store, f.spaces = st, make(map[string]bool)
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	f.mu.Unlock()
	for after := ""; ; {
		names, err := st.Spaces(ctx, thole.SpacesQuery{After: after})
		if err != nil {
			return err
		}
		for _, name := range names {
			f.Queued(name, "")
		}
		if len(names) < thole.MaxPage {
			return nil
		}
		after = names[len(names)-1]
	}
}

// Queued implements rest.Runner: it makes sure that someone works in the space.
func (f *fleet) Queued(space, _ string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.store == nil || f.ctx.Err() != nil || f.spaces[space] || !strings.HasPrefix(space, "project:") {
		return
	}
	f.spaces[space] = true
	f.wg.Go(func() {
		_ = f.agent.Serve(f.ctx, f.store.Space(space), &agent.ServeOptions{Unnamed: true}) // ends with ctx
	})
}

// stop lets the runs at work end, cancels those that do not in time, and waits.
func (f *fleet) stop(ctx context.Context) {
	f.group.Drain(ctx)
	f.mu.Lock()
	if f.cancel != nil {
		f.cancel()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

var _ rest.Runner = (*fleet)(nil)
