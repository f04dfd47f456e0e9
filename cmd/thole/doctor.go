package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// errUnhealthy makes the command fail after it printed what it found.
var errUnhealthy = errors.New("the store has problems")

func doctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check a store: order, density, folds, leases, orphans",
		Long: `Read everything in the store and check that it holds together. Nothing is
changed, but that a file store cuts what a crash tore and adopts what was changed
by hand, as whoever opens it does; notes say so. The exit code is 1 if there is a
problem; a note is no problem.`,
		Example: "  thole doctor --store sqlite:PATH",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.reading(cmd.Context(), func(s *thole.Store) error {
				d := &doctor{store: s, p: a.printer(cmd.OutOrStdout())}
				return d.examine(cmd.Context())
			})
		},
	}
}

// finding is one line of the doctor's report.
type finding struct {
	Level string `json:"level"` // ok, note, problem
	Space string `json:"space,omitempty"`
	What  string `json:"what"`
}

type doctor struct {
	store    *thole.Store
	p        printer
	problems int
	ahead    string // of a space: what was written furthest in the future, and
	aheadBy  time.Duration
	err      error // of printing
}

func (d *doctor) say(level, space, format string, args ...any) {
	f := finding{Level: level, Space: space, What: fmt.Sprintf(format, args...)}
	if level == "problem" {
		d.problems++
	}
	if err := d.p.print(f, "%-8s %-28s %s", f.Level, f.Space, f.What); err != nil {
		d.err = err
	}
}

func (d *doctor) examine(ctx context.Context) error {
	d.say("ok", "", "acknowledged commits are %s", durabilityText(d.store.Durability()))
	can := d.store.Backend().Capabilities()
	if can.Check != nil {
		if err := can.Check(ctx); err != nil {
			d.say("problem", "", "the engine's own check failed: %v", err)
		} else {
			d.say("ok", "", "the engine's own check passed")
		}
	}
	if can.Report != nil {
		for _, line := range can.Report() {
			d.say("note", "", "%s", line)
		}
	}
	n := 0
	for after := ""; ; {
		names, err := d.store.Spaces(ctx, thole.SpacesQuery{After: after})
		var away *thole.UnreachableError
		switch {
		case errors.As(err, &away):
			if after == "" { // once
				for _, s := range away.Stores {
					d.say("problem", "", "the store of %s does not answer; its spaces are not examined: %v", strings.Join(s.Spaces, ", "), s.Err)
				}
			}
		case err != nil:
			return err
		}
		for _, name := range names {
			err := d.space(ctx, d.store.Space(name))
			if errors.Is(err, thole.ErrCorrupt) { // the others may be well
				d.say("problem", name, "%v; the rest of the space is not examined", err)
			} else if err != nil {
				return err
			}
			n++
		}
		if len(names) < thole.MaxPage {
			break
		}
		after = names[len(names)-1]
	}
	d.say("ok", "", "%d spaces examined, %d problems", n, d.problems)
	if d.err == nil && d.problems > 0 {
		d.err = errUnhealthy
	}
	return d.err
}

func durabilityText(d journal.Durability) string {
	switch d {
	case journal.Sync:
		return "sync: on stable storage, they survive a power loss"
	case journal.Replicated:
		return "replicated: a majority has them, they may be lost if a majority loses power"
	case journal.Relaxed:
		return "relaxed: in the engine's cache, the newest may be lost in a power loss"
	}
	return "none: in memory only, lost with this process"
}

func (d *doctor) space(ctx context.Context, sp *thole.Space) error {
	head, err := sp.Head(ctx)
	if err != nil {
		return err
	}
	before := d.problems
	d.ahead, d.aheadBy = "", 0
	events, err := d.journal(ctx, sp, head)
	if err != nil {
		return err
	}
	records, err := d.records(ctx, sp, head)
	if err != nil {
		return err
	}
	if err := d.concepts(ctx, sp); err != nil {
		return err
	}
	if err := d.overdue(ctx, sp); err != nil {
		return err
	}
	if d.ahead != "" {
		d.say("note", sp.Name(), "%s is from a time %v ahead of this machine's clock: a machine that writes here had a wrong clock, or this one's is behind and what it writes with a ttl ends too early", d.ahead, d.aheadBy.Round(time.Second))
	}
	if d.problems == before {
		d.say("ok", sp.Name(), "%d events, %d commits without one, %d records, up to %s",
			events, int(head.Last.Seq-head.Oldest.Seq)+1-events, records, head.Last)
	}
	return nil
}

// journal checks that the epochs join, and that every event lies in one, after
// the event before it, with JSON for data.
func (d *doctor) journal(ctx context.Context, sp *thole.Space, head thole.Head) (int, error) {
	var end uint64
	epochs := make(map[string]journal.Epoch)
	for i, e := range head.Epochs {
		if e.First > e.Last+1 || i > 0 && e.First != end+1 {
			d.say("problem", sp.Name(), "epoch %s (%d…%d) does not follow the one before it", e.Name, e.First, e.Last)
		}
		end = e.Last
		epochs[e.Name] = e
	}
	if end != head.Last.Seq {
		d.say("problem", sp.Name(), "the last epoch ends at %d but the head is %s", end, head.Last)
	}
	n := 0
	var last thole.Position
	for e, err := range sp.Events(ctx, thole.ReadQuery{}) {
		if err != nil {
			return n, err
		}
		n++
		d.dated(e.Time, "event "+e.Position.String())
		if e.Position.Compare(head.Last) > 0 { // a server that is at work may have committed it since
			if head, err = sp.Head(ctx); err != nil {
				return n, err
			}
			for _, e := range head.Epochs {
				epochs[e.Name] = e
			}
		}
		in, known := epochs[e.Position.Epoch]
		switch {
		case !known || e.Position.Seq < in.First || e.Position.Seq > in.Last:
			d.say("problem", sp.Name(), "event %s lies in no epoch", e.Position)
		case e.Position.Compare(last) <= 0:
			d.say("problem", sp.Name(), "event %s does not come after %s", e.Position, last)
		case e.Data != nil && !json.Valid(e.Data):
			d.say("problem", sp.Name(), "event %s does not hold JSON", e.Position)
		}
		last = e.Position
	}
	return n, nil
}

// records checks each record as it comes, in key order, and returns how many there are:
// that it is what its concept declares, and that what it belongs to is there.
func (d *doctor) records(ctx context.Context, sp *thole.Space, head thole.Head) (int, error) {
	n := 0
	there := "" // a record that others belong to
	for r, err := range sp.Records(ctx, "") {
		if err != nil {
			return n, err
		}
		n++
		d.dated(r.Updated, "record "+r.Key)
		if !json.Valid(r.Value) {
			d.say("problem", sp.Name(), "record %s does not hold JSON", r.Key)
		}
		if r.Version.Compare(head.Last) > 0 {
			d.say("problem", sp.Name(), "record %s has version %s, beyond the head %s", r.Key, r.Version, head.Last)
		}
		if err := d.lease(ctx, sp, r); err != nil {
			return n, err
		}
		declared, _ := d.store.Concepts().Record(r.Key)
		if declared == nil {
			continue
		}
		if err := declared.Decode(r.Key, r.Value); err != nil {
			d.say("problem", sp.Name(), "%v", err)
		}
		owner := d.store.Concepts().Owner(r.Key)
		if owner == "" || owner == there {
			continue
		}
		if rec, err := sp.Get(ctx, owner); err != nil {
			return n, err
		} else if !rec.Exists() {
			d.say("problem", sp.Name(), "record %s is an orphan: %s is gone", r.Key, owner)
		} else {
			there = owner
		}
	}
	return n, nil
}

// concepts makes the checks that the concepts declare.
func (d *doctor) concepts(ctx context.Context, sp *thole.Space) error {
	report := thole.Report{
		Problem: func(format string, args ...any) { d.say("problem", sp.Name(), format, args...) },
		Note:    func(format string, args ...any) { d.say("note", sp.Name(), format, args...) },
	}
	for _, c := range d.store.Concepts().All() {
		if c.Check == nil {
			continue
		}
		if err := c.Check(ctx, sp, &report); err != nil {
			return fmt.Errorf("check of concept %s: %w", c.Name, err)
		}
	}
	return nil
}

// lateBy is after how long a sweep should have ended what expired, though it failed at
// first.
const lateBy = 5 * time.Minute

// overdue notes the records that expired some time ago and are there still.
func (d *doctor) overdue(ctx context.Context, sp *thole.Space) error {
	n, unknown, oldest := 0, 0, thole.Record{}
	for q := (thole.ListQuery{DueBy: d.store.Now().Add(-lateBy), Limit: thole.MaxPage}); ; {
		recs, err := sp.List(ctx, q)
		if err != nil {
			return err
		}
		for _, r := range recs {
			if declared, _ := d.store.Concepts().Record(r.Key); declared == nil {
				unknown++
			}
			if n++; n == 1 || r.Expires.Before(oldest.Expires) {
				oldest = r
			}
		}
		if len(recs) < q.Limit {
			break
		}
		q.After = recs[len(recs)-1].Key
	}
	if n > 0 {
		d.say("note", sp.Name(), "%d records expired over %v ago and have not ended, the first of them %s at %s: no program sweeps the store, or the log of the one that does says why; %d are of no concept of Thole",
			n, lateBy, oldest.Key, stamp(oldest.Expires), unknown)
	}
	return nil
}

// dated remembers what carries the time that is furthest ahead of the machine's
// clock, if that is more than clocks may differ.
func (d *doctor) dated(t time.Time, what string) {
	const allowed = 5 * time.Second
	if by := time.Until(t.Round(0)); by > max(allowed, d.aheadBy) {
		d.ahead, d.aheadBy = what, by
	}
}

// lease notes a lease whose holder is gone, and finds a beat without an owner.
func (d *doctor) lease(ctx context.Context, sp *thole.Space, r thole.Record) error {
	base, part, ok := thole.LeaseOf(r.Key)
	if !ok {
		return nil
	}
	if part == "owner" {
		beat, err := sp.Get(ctx, base+"/beat")
		if err == nil && !beat.Exists() {
			d.say("note", sp.Name(), "the holder of lease %s, who has it since %s, is silent; it will be swept or taken over", base, stamp(r.Updated))
		}
		return err
	}
	owner, err := sp.Get(ctx, base+"/owner")
	if err == nil && !owner.Exists() {
		d.say("problem", sp.Name(), "lease %s has a beat but no owner", base)
	}
	return err
}

func stamp(t time.Time) string { return t.Local().Format(time.DateTime) }
