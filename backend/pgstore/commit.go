package pgstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/thole-dev/thole/journal"
)

// commitSQL calls the function with the arguments that batch.args returns.
var commitSQL = `SELECT * FROM thole.commit_1(` + placeholders(31) + `)`

func placeholders(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("$%d", i+1))
	}
	return strings.Join(list, ", ")
}

// maxRepeats is how often a commit is tried that the server rolls back.
const maxRepeats = 3

// Commit implements [journal.Backend]. The batch is one call, which the server
// completes or rolls back even if the client dies. Commit repeats it only if the
// server reports a rollback because of a deadlock or a serialization failure; after
// any other error, it is unknown what was applied. A commit with a name that
// PostgreSQL cannot store is not applied, and its result is ErrInvalid.
func (s *Store) Commit(ctx context.Context, commits []journal.Commit) ([]journal.Result, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	defer leave()
	if len(commits) == 0 {
		return []journal.Result{}, nil
	}
	return s.commit(ctx, commits)
}

func (s *Store) commit(ctx context.Context, commits []journal.Commit) ([]journal.Result, error) {
	b, err := newBatch(commits)
	switch half := len(commits) / 2; {
	case err != nil && half > 0:
		first, err := s.commit(ctx, commits[:half])
		if err != nil {
			return nil, err
		}
		rest, err := s.commit(ctx, commits[half:])
		return append(first, rest...), err
	case err != nil:
		return []journal.Result{{Err: fmt.Errorf("commit: %w", err)}}, nil
	}
	var out outcome
	for range maxRepeats {
		if out, err = s.call(ctx, b); !rolledBack(err) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("commit: %w", s.explain(ctx, err))
	}
	if s.wire != nil {
		s.wire.committed(b.spaces)
	}
	return out.results(commits, b), nil
}

// outcome is the result of thole.commit_1.
type outcome struct {
	seqs    []int64
	epochs  []string
	commit  []int32
	item    []int32
	seq     []int64
	epoch   []string
	expired []bool
}

func (s *Store) call(ctx context.Context, b *batch) (out outcome, err error) {
	err = s.pool.QueryRow(ctx, s.sql(commitSQL), b.args()...).
		Scan(&out.seqs, &out.epochs, &out.commit, &out.item, &out.seq, &out.epoch, &out.expired)
	return out, err
}

// results converts the outcome to results.
func (o *outcome) results(commits []journal.Commit, b *batch) []journal.Result {
	results := make([]journal.Result, len(commits))
	for i := range commits {
		if o.seqs[i] == 0 {
			continue
		}
		last := journal.Position{Epoch: o.epochs[b.space[i]-1], Seq: uint64(o.seqs[i])}
		results[i].Last = last
		if n := uint64(len(commits[i].Events)); n > 0 {
			results[i].First = journal.Position{Epoch: last.Epoch, Seq: last.Seq - n + 1}
		}
	}
	for i, at := range o.commit {
		c := &commits[at-1]
		conflict := &journal.ConflictError{Space: c.Space, Expired: o.expired[i]}
		if o.seq[i] != 0 {
			conflict.Actual = journal.Position{Epoch: o.epoch[i], Seq: uint64(o.seq[i])}
		}
		if item := o.item[i]; item > 0 {
			conflict.Check = b.check(commits, at, item)
		} else {
			conflict.Check.Key = b.writes.key[-item-1]
		}
		results[at-1].Conflict = conflict
	}
	return results
}

// check returns the check with that number in the batch, which is of the commit at.
// Both count from 1.
func (b *batch) check(commits []journal.Commit, at, number int32) journal.Check {
	first := number - 1
	for first > 0 && b.checks.commit[first-1] == at {
		first--
	}
	return commits[at-1].Checks[number-1-first]
}

// optional returns t, or nil for the zero time.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func encodeRefs(refs []string) ([]byte, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	return json.Marshal(refs)
}
