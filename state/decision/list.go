package decision

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/look"
	"github.com/thole-dev/thole/journal"
)

// ListOptions of [Decisions.List]. The zero value lists all decisions.
type ListOptions struct {
	Incomplete bool   // only those that are planned or unknown
	Thread     string // only of this thread
	Run        string // only of this run
	After      string // the Next of an earlier page: list the ids after it
	Limit      int    // 1…1,000; 0: 1,000
}

// List returns decisions in the order of their ids, which is about the order of their
// creation. Incomplete ones have an index; those of a thread or a run are filtered from
// all. A page reads at most about 4,096 decisions and 16 MiB, so it may hold fewer than
// Limit although there are more; only an empty Next means the end. List leaves out those
// that cannot be read: see [thole.Space.LeavesOut]. [Decisions.All] does not.
func (d *Decisions) List(ctx context.Context, opts *ListOptions) (thole.PageOf[Decision], error) {
	return d.list(ctx, opts, d.sp.LeavesOut)
}

// none leaves out nothing. It is for callers that act on what they find: one that misses a
// decision may do again what it did.
func none(thole.Record, error) bool { return false }

func (d *Decisions) list(ctx context.Context, opts *ListOptions, leavesOut func(thole.Record, error) bool) (thole.PageOf[Decision], error) {
	var o ListOptions
	if opts != nil {
		o = *opts
	}
	limit := journal.PageLimit(o.Limit)
	q := thole.ListQuery{Prefix: all}
	if o.Incomplete {
		q.Prefix = open
	}
	if o.After != "" {
		q.After = q.Prefix + o.After
	}
	var page thole.PageOf[Decision]
	var budget look.Budget
	for {
		q.Limit = budget.Page(limit)
		recs, err := d.sp.List(ctx, q)
		if err != nil {
			return thole.PageOf[Decision]{}, err
		}
		decisions, bytes, err := d.load(ctx, q.Prefix, recs, leavesOut)
		if err != nil {
			return thole.PageOf[Decision]{}, err
		}
		budget.Took(len(recs), bytes)
		page.Looked, page.Bytes = budget.Looked()
		for i, dec := range decisions {
			if o.Thread != "" && dec.Thread != o.Thread || o.Run != "" && dec.Run != o.Run {
				continue
			}
			page.Items = append(page.Items, dec)
			if len(page.Items) == limit && (i+1 < len(decisions) || len(recs) == q.Limit) {
				page.Next = dec.ID
				return page, nil
			}
		}
		if len(recs) < q.Limit {
			return page, nil
		}
		q.After = recs[len(recs)-1].Key
		if budget.Spent() {
			page.Next = q.After[len(q.Prefix):]
			return page, nil
		}
	}
}

// load returns the decisions that records under prefix hold or index, without those that
// leavesOut leaves out, and the size of all their records.
func (d *Decisions) load(ctx context.Context, prefix string, recs []thole.Record, leavesOut func(thole.Record, error) bool) (out []Decision, bytes int, err error) {
	if prefix != all && len(recs) > 0 {
		keys := make([]string, len(recs))
		for i, rec := range recs {
			keys[i] = all + rec.Key[len(prefix):]
		}
		if recs, err = d.sp.GetAll(ctx, keys...); err != nil {
			return nil, 0, err
		}
	}
	for _, rec := range recs {
		if !rec.Exists() {
			continue // deleted between the two reads
		}
		bytes += len(rec.Value)
		dec, err := read(rec.Key, rec)
		switch {
		case err == nil:
			out = append(out, dec)
		case !leavesOut(rec, err):
			return nil, 0, err
		}
	}
	return out, bytes, nil
}

// IndexSize is the default of IndexOptions.Recent.
const IndexSize = 20

// Index is what an agent should know of the decisions so far.
type Index struct {
	Standing []Decision `json:"standing"` // all orders in force, oldest first
	Recent   []Decision `json:"recent"`   // the last decisions, newest first, as they are now
}

// IndexOptions of [Decisions.Index]. The zero value is the default.
type IndexOptions struct {
	Recent int // how many of the last decisions; 0: IndexSize
	// Select reports whether the index may hold a decision. Nil: all.
	Select func(Decision) bool
}

// Index returns all standing orders and the last other decisions. It searches about the
// last 4,096 decisions and 16 MiB for these; [Decisions.List] has all. It leaves out the
// latter if they cannot be read. A standing order that cannot be read is ErrCorrupt: nobody
// would follow it.
func (d *Decisions) Index(ctx context.Context, opts *IndexOptions) (Index, error) {
	var o IndexOptions
	if opts != nil {
		o = *opts
	}
	n := o.Recent
	if n <= 0 {
		n = IndexSize
	}
	leftOut := func(dec Decision) bool { return o.Select != nil && !o.Select(dec) }
	var index Index
	var recs []thole.Record
	for rec, err := range d.sp.Records(ctx, standing) {
		if err != nil {
			return Index{}, err
		}
		recs = append(recs, rec)
	}
	for some := range slices.Chunk(recs, look.MaxPage) {
		orders, _, err := d.load(ctx, standing, some, none)
		if err != nil {
			return Index{}, err
		}
		index.Standing = append(index.Standing, slices.DeleteFunc(orders, leftOut)...)
	}
	keys, err := d.recent(ctx, n, leftOut)
	if err != nil || len(keys) == 0 {
		return index, err
	}
	if recs, err = d.sp.GetAll(ctx, keys...); err != nil {
		return Index{}, err
	}
	index.Recent, _, err = d.load(ctx, all, recs, d.sp.LeavesOut)
	return index, err
}

// recent returns the keys of the last n decisions that are not left out, newest
// first.
func (d *Decisions) recent(ctx context.Context, n int, leftOut func(Decision) bool) (keys []string, err error) {
	q := thole.ReadQuery{Stream: Stream, Types: []string{TypePlanned}, Backward: true}
	var budget look.Budget
	for {
		q.Limit = budget.Page(n)
		page, err := d.sp.Read(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Events {
			budget.Took(1, len(e.Data))
			var dec Decision
			if e.Data == nil || e.As(&dec) != nil || dec.Status != Planned || leftOut(dec) {
				continue // erased, an order, or not wanted
			}
			if keys = append(keys, all+dec.ID); len(keys) == n {
				return keys, nil
			}
		}
		if page.Next.IsZero() || budget.Spent() {
			return keys, nil
		}
		q.Before = page.Next
	}
}

// ReconcileOptions of [Decisions.Reconcile].
type ReconcileOptions struct {
	// Select reports whether to reconcile an incomplete decision. It should leave out
	// those of a run that is still alive. Nil: all.
	Select func(Decision) bool
}

// Reconciled is the result of [Decisions.Reconcile].
type Reconciled struct {
	Replay   []Decision // idempotent: the caller does them again, then resolves them
	Resolved []Decision // verified as done or failed
	Unknown  []Decision // not verified: a person must find out
	Acting   []Decision // in progress in [Decisions.Do] or Once, or were up to 30 s ago: try again later
}

// Reconcile resolves the decisions that a crash left incomplete. It returns idempotent acts
// for the caller to do again. For any other it calls verify and records the outcome; if
// verify fails or is nil, the decision becomes unknown, with verify's error as its result.
// It verifies unknown decisions again. It does not touch decisions whose act is in progress
// or that another process resolves meanwhile. It is safe to repeat and needs no idempotency
// key. Errors: ErrCorrupt for an incomplete decision that cannot be read; those of the
// store; ctx's cause.
func (d *Decisions) Reconcile(ctx context.Context, verify Verify, opts *ReconcileOptions) (Reconciled, error) {
	var r Reconciled
	list := ListOptions{Incomplete: true}
	for {
		page, err := d.list(ctx, &list, none)
		if err != nil {
			return r, err
		}
		for _, dec := range page.Items {
			if opts != nil && opts.Select != nil && !opts.Select(dec) {
				continue
			}
			seen, err := d.look(ctx, dec.ID, false, "")
			if err == nil && seen.acting {
				r.Acting = append(r.Acting, dec)
				continue
			}
			if err == nil && seen.Idempotent && seen.Status == Planned {
				r.Replay = append(r.Replay, dec)
				continue
			}
			now := seen.Decision
			if err == nil {
				now, err = d.settle(ctx, now, verify)
			}
			switch {
			case errors.Is(err, thole.ErrConflict) || errors.Is(err, thole.ErrNotFound):
			case err != nil:
				return r, fmt.Errorf("reconcile decision %s: %w", dec.ID, err)
			case now.Status == Unknown:
				r.Unknown = append(r.Unknown, now)
			default:
				r.Resolved = append(r.Resolved, now)
			}
		}
		if list.After = page.Next; page.Next == "" {
			return r, nil
		}
	}
}

func (d *Decisions) settle(ctx context.Context, dec Decision, verify Verify) (Decision, error) {
	outcome, result := Unknown, any(nil)
	if verify != nil {
		var err error
		if outcome, result, err = verify(ctx, dec); err != nil {
			outcome, result = Unknown, map[string]string{"error": err.Error()}
		}
	}
	if ctx.Err() != nil {
		return dec, context.Cause(ctx)
	}
	if !slices.Contains([]Status{Done, Failed}, outcome) {
		if dec.Status == Unknown {
			return dec, nil // no news
		}
		outcome = Unknown
	}
	return d.Resolve(thole.WithoutIdempotencyKey(ctx), dec.ID, outcome, result)
}
