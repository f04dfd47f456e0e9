package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
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
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/run"
)

// coder is what the flags say of the reference agent.
type coder struct {
	app   *app
	dir   string
	space string
	model string
	lease time.Duration
	stall time.Duration

	passEnv, read, write []string // of the sandbox
	unconfined           bool

	placed string // a line that says where the state is, if place chose it
}

func (c *coder) flags(cmd *cobra.Command, dir string) {
	f := cmd.Flags()
	f.StringVar(&c.dir, "dir", dir, "the project that the agent works on")
	f.StringVar(&c.model, "model", sampleModel, model.Forms+", or "+sampleModel+": recorded turns on the sample project")
	f.DurationVar(&c.stall, "stall", time.Minute, "how long the model's service may send nothing before an attempt is given up")
	f.StringArrayVar(&c.passEnv, "bash-env", nil, "name of a variable that the agent's commands get; may be given more than once")
	f.StringArrayVar(&c.read, "bash-read", nil, "absolute path that the agent's commands may read; may be given more than once")
	f.StringArrayVar(&c.write, "bash-write", nil, "absolute path that the agent's commands may change; may be given more than once")
	f.BoolVar(&c.unconfined, "bash-unconfined", false, "let the agent's commands do whatever you may")
	f.DurationVar(&c.lease, "lease", 30*time.Second, "how long a worker may be silent before its run counts as crashed")
}

// openModel opens the model that --model names.
func (c *coder) openModel() (model.Model, error) {
	if c.model == sampleModel {
		return examples.Script()
	}
	if !strings.Contains(c.model, ":") {
		return nil, fmt.Errorf("%w: --model %q; use %s, or %s", thole.ErrInvalid, c.model, model.Forms, sampleModel)
	}
	return model.Open(c.model, &model.Options{Stall: c.stall})
}

// open makes the agent; the caller closes the sandbox.
func (c *coder) open(m model.Model, group *run.Group, hooks agent.Hooks) (*agent.Agent, *sandbox.Sandbox, error) {
	kept, err := c.app.keptIn()
	if err != nil {
		return nil, nil, err
	}
	sb, err := sandbox.Open(c.dir, &sandbox.Options{
		Deny: kept, Supervisor: c.app.supervisor, PassEnv: c.passEnv, Read: c.read, Write: c.write, Unconfined: c.unconfined,
	})
	if err != nil {
		return nil, nil, err
	}
	a, err := agent.New(agent.Options{
		Sandbox: sb, Models: map[string]model.Model{m.Name(): m},
		Runs: &run.Options{Lease: c.lease, Group: group}, Hooks: hooks,
	})
	if err != nil {
		return nil, nil, errors.Join(err, sb.Close())
	}
	return a, sb, nil
}

// sampleDir is where dev lays out the sample project.
const sampleDir = "thole-sample"

// sampleModel stands for the script of the sample's turns.
const sampleModel = "sample"

func devCommand(a *app) *cobra.Command {
	s := &server{app: a}
	c := &coder{app: a}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Start everything here: a store, the API on loopback, an agent and a sample",
		Long: `Start a store (a SQLite file in .thole/, see --store), the API without tokens on
loopback, and the reference coding agent, which works on one folder for the runs of one
space: other programs may work on other folders for other spaces of the same store. Without
--dir and --model the agent plays recorded turns on a sample project that is laid out in
` + sampleDir + `/, for any space project:….`,
		Example: `  thole dev                                          # the sample, for a first look
  thole dev --dir shop --model openai:gpt-5-mini     # an agent on your project, in space project:shop`,
		Args: cobra.NoArgs,
	}
	s.flags(cmd)
	c.flags(cmd, sampleDir)
	cmd.Flags().StringVar(&c.space, "space", "", "space whose runs the agent takes, project:* for all such (default project:<name of the folder>; for the sample, all)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := onlyLoopback(s.listen); err != nil {
			return err
		}
		if err := c.place(cmd); err != nil {
			return err
		}
		if err := c.serves(); err != nil {
			return err
		}
		m, err := c.openModel()
		if err != nil {
			return err
		}
		out, log := cmd.OutOrStdout(), cmd.ErrOrStderr()
		f := &fleet{space: c.space, group: &run.Group{}, waits: func(line string) { _ = sayf(log, "%s\n", line) }}
		var sb *sandbox.Sandbox
		err = s.run(cmd.Context(), out, setup{
			runner: f,
			start: func(ctx context.Context, st *thole.Store, url string) (err error) {
				if c.dir == sampleDir {
					if _, err := examples.LayOut(c.dir); err != nil {
						return err
					}
				}
				var coding *agent.Agent
				if coding, sb, err = c.open(m, f.group, agent.Hooks{}); err != nil {
					return err
				}
				c.help(out, url)
				fmt.Fprintf(out, "  %s\n%s", sb.Confined(), c.placed)
				return f.start(ctx, st, coding)
			},
			stop: f.stop,
		})
		if sb != nil {
			err = errors.Join(err, sb.Close())
		}
		return err
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

// anyProject stands for all spaces of projects.
const anyProject = "project:*"

// serves settles for which space the agent works on the folder. A folder of a
// person's is changed for the runs of its own space only.
func (c *coder) serves() error {
	switch {
	case c.space == anyProject:
		return nil
	case c.space != "":
		return journal.CheckSpaceName(c.space)
	case c.dir == sampleDir:
		c.space = anyProject
		return nil
	}
	var err error
	c.space, err = c.own()
	return err
}

// own returns the space of the folder.
func (c *coder) own() (string, error) {
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return "", err
	}
	space := "project:" + filepath.Base(dir)
	if err := journal.CheckSpaceName(space); err != nil {
		return "", fmt.Errorf("the name of the folder names no space: %w; choose one with --space", err)
	}
	return space, nil
}

func (c *coder) help(out io.Writer, url string) {
	program := os.Args[0]                      // as it can be called again
	if strings.Contains(program, "go-build") { // go run
		program = "go run ./cmd/thole"
	}
	runs, tail := "space "+c.space, c.space
	if c.space == anyProject {
		runs, tail = "any space project:…", "project:sample"
		if own, err := c.own(); err == nil && c.dir != sampleDir {
			tail = own
		}
	}
	fmt.Fprintf(out, `
The agent `+agent.DefaultName+` works on %s for runs in %s
  follow everything   %s tail %s --server %s --after=
  the API             %s/docs
`, filepath.Clean(c.dir)+"/", runs, program, tail, url, url)
	if _, err := os.Stat("examples/turns.sh"); err == nil && c.dir == sampleDir && c.model == sampleModel {
		fmt.Fprintf(out, "  the sample's turns  examples/turns.sh %s\n", url)
	}
}

// fleet is the agent's workers: one for each space that has had a run.
type fleet struct {
	group *run.Group
	space string            // whose runs they take, or anyProject
	waits func(line string) // tells of a run that nobody here takes

	mu     sync.Mutex
	agent  *agent.Agent    // set by start
	ctx    context.Context // set by start; ends with stop
	cancel context.CancelFunc
	store  *thole.Store
	spaces map[string]bool
	wg     sync.WaitGroup
}

// start takes up the work that waits in the store.
func (f *fleet) start(ctx context.Context, st *thole.Store, coding *agent.Agent) error {
	f.mu.Lock()
	f.agent, f.store, f.spaces = coding, st, make(map[string]bool)
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	f.mu.Unlock()
	if f.space != anyProject {
		f.work(f.space)
		return nil
	}
	for after := ""; ; {
		names, err := st.Spaces(ctx, thole.SpacesQuery{After: after})
		if err != nil && !errors.As(err, new(*thole.UnreachableError)) {
			return err
		}
		for _, name := range names {
			f.work(name)
		}
		if len(names) < thole.MaxPage {
			return nil
		}
		after = names[len(names)-1]
	}
}

// Queued implements rest.Runner: it makes sure that someone works in the space, or
// tells that nobody does.
func (f *fleet) Queued(space, name string) {
	switch {
	case name != "" && name != agent.DefaultName:
		f.waits(fmt.Sprintf("a run in %s waits for a worker of agent %q; the only agent here is %q", space, name, agent.DefaultName))
	case !f.serves(space):
		f.waits(fmt.Sprintf("a run in %s waits for a worker elsewhere; the agent here takes those in %s, see --space", space, f.space))
	}
	f.work(space)
}

// serves reports whether the runs of a space are taken here.
func (f *fleet) serves(space string) bool {
	return space == f.space || f.space == anyProject && strings.HasPrefix(space, "project:")
}

// work starts a worker for a space of ours that has none.
func (f *fleet) work(space string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.serves(space) || f.store == nil || f.ctx.Err() != nil || f.spaces[space] {
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
