package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// chat is a conversation with the agent on a terminal.
type chat struct {
	coder
	thread string
	resume string
	runs   sync.Map // ids of the runs that began here, those of sub-agents too
}

func agentCommand(a *app) *cobra.Command {
	c := &chat{coder: coder{app: a}}
	cmd := &cobra.Command{
		Use:   "agent [PROMPT]",
		Short: "Talk to the reference coding agent about the project in a folder",
		Long: `Give the reference coding agent a task, or, without a prompt, talk to it line by
line. What is said and done is kept in the store; go on with a conversation with
--thread, and with a run that crashed with --resume. Ctrl-C cancels; the line "exit" or
"quit" ends the talk, as the end of the input does.`,
		Example: "  thole agent --dir . --model openai:gpt-5-mini 'Add a test for the parser'",
	}
	c.flags(cmd, ".")
	cmd.Flags().StringVar(&c.space, "space", "", "space of the conversation (default project:<name of the folder>)")
	cmd.Flags().StringVar(&c.thread, "thread", "", "go on with this conversation")
	cmd.Flags().StringVar(&c.resume, "resume", "", "go on with this run, which crashed, failed or was cancelled")
	cmd.MarkFlagsMutuallyExclusive("thread", "resume") // a run tells its thread
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if c.resume != "" && len(args) > 0 {
			return fmt.Errorf("--resume goes on with what the run was asked; give the prompt in a command of its own, with --thread")
		}
		if err := c.place(cmd); err != nil {
			return err
		}
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(cmd.Context()))
		defer cancel(nil)
		defer context.AfterFunc(cmd.Context(), func() { cancel(&run.CancelledError{Cause: run.ByUser}) })()
		return c.run(ctx, cmd.InOrStdin(), cmd.OutOrStdout(), strings.Join(args, " "))
	}
	return cmd
}

func (c *chat) run(ctx context.Context, in io.Reader, out io.Writer, prompt string) (err error) {
	m, err := c.openModel()
	if err != nil {
		return err
	}
	coding, sb, err := c.open(m, nil, agent.Hooks{BeforeRun: func(_ context.Context, begun *agent.Context, _ *agent.Request) error {
		c.runs.Store(begun.Run, true)
		return nil
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sb.Close()) }()
	fresh := c.thread == "" && c.resume == ""
	st, err := c.app.open(ctx, fresh, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if c.space == "" {
		if c.space, err = c.own(); err != nil {
			return err
		}
	}
	sp := st.Space(c.space).As("user:" + userName())
	if err := c.find(ctx, sp); err != nil {
		return err
	}
	if c.resume != "" {
		fmt.Fprintf(os.Stderr, "%s\n%s", sb.Confined(), c.placed)
		return c.follow(ctx, sp, out, func() error {
			_, err := coding.Resume(ctx, sp, c.resume)
			return err
		})
	}
	if c.thread == "" {
		t, err := thread.In(sp).Create(ctx, &thread.CreateOptions{Title: clip([]byte(prompt), 60)})
		if err != nil {
			return err
		}
		c.thread = t.ID
	}
	fmt.Fprintf(os.Stderr, "thread %s in %s\n%s\n%s", c.thread, c.space, sb.Confined(), c.placed)
	turn := func(prompt string) error {
		return c.follow(ctx, sp, out, func() error {
			_, err := coding.Run(ctx, sp, c.thread, agent.Request{Prompt: prompt})
			return err
		})
	}
	if prompt != "" {
		return turn(prompt)
	}
	return lines(ctx, in, turn)
}

// find fails if the space lacks the thread or the run to go on with.
func (c *chat) find(ctx context.Context, sp *thole.Space) (err error) {
	switch {
	case c.thread != "":
		_, err = thread.In(sp).Get(ctx, c.thread)
	case c.resume != "":
		_, err = run.In(sp, nil).Get(ctx, c.resume)
	}
	if errors.Is(err, thole.ErrNotFound) {
		err = fmt.Errorf("%w in %s; name another space with --space, another store with --store", err, c.space)
	}
	return err
}

func userName() string {
	if u := os.Getenv("USER"); u != "" {
		return u
	}
	return "local"
}

// lines calls turn for each line of in that holds something, until in ends or a line
// says exit or quit.
func lines(ctx context.Context, in io.Reader, turn func(string) error) error {
	f, ok := in.(*os.File)
	ask := func() {
		if ok && term.IsTerminal(int(f.Fd())) {
			fmt.Fprint(os.Stderr, "> ")
		}
	}
	read, ended := make(chan string), make(chan error, 1)
	go func() { // a read from a terminal cannot be interrupted: it ends with the process
		r := bufio.NewReader(in)
		for {
			line, err := r.ReadString('\n')
			if line != "" {
				select {
				case read <- line:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	for {
		ask()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		case line := <-read:
			switch line = strings.TrimSpace(line); line {
			case "":
			case "exit", "quit":
				return nil
			default:
				if err := turn(line); err != nil {
					_ = sayf(os.Stderr, "thole: %v\n", err)
				}
			}
		}
	}
}

// follow does work and prints what its run and the run's sub-agents say and do meanwhile.
// It prints text as it is committed, within 100 ms, not as it is broadcast: so nothing is
// missing, however slowly out is read.
func (c *chat) follow(ctx context.Context, sp *thole.Space, out io.Writer, work func() error) error {
	types := []string{"message.delta", "tool.started", "tool.failed", "file.conflict"}
	w, err := sp.Watch(ctx, &thole.WatchOptions{Types: types, Durable: true})
	if err != nil {
		return err
	}
	defer w.Close()
	watching, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			ds, err := w.Next(watching)
			if errors.Is(err, thole.ErrTrimmed) { // what comes is to be shown all the same
				continue
			}
			if err != nil {
				return
			}
			for _, d := range ds {
				c.show(out, &d.Event)
			}
		}
	}()
	err = work()
	stop()
	<-ended
	rest := thole.ReadQuery{After: w.Position(), Types: types}
	for e, readErr := range sp.Events(context.WithoutCancel(ctx), rest) {
		if readErr != nil {
			err = errors.Join(err, fmt.Errorf("what was said last is not shown: %w", readErr))
			break
		}
		c.show(out, &e)
	}
	fmt.Fprintln(out)
	return err
}

// show prints a piece of text, or a line for a thing done, if a run that began here is
// the event's cause. The space has other conversations.
func (c *chat) show(out io.Writer, e *thole.Event) {
	if _, own := c.runs.Load(e.Cause); !own {
		return
	}
	switch e.Type {
	case "message.delta":
		var delta thread.Delta
		if json.Unmarshal(e.Data, &delta) == nil {
			_ = sayf(out, "%s", delta.Text)
		}
	case "tool.started":
		var call thread.Updated
		if json.Unmarshal(e.Data, &call) == nil && call.Block.Tool != nil {
			_ = sayf(out, "\n· %s %s\n", call.Block.Tool.Name, clip(call.Block.Tool.Input, 100))
		}
	case "tool.failed", "file.conflict":
		_ = sayf(out, "  ! %s\n", clip(e.Data, 200))
	}
}
