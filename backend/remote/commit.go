package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole/journal"
)

// Commit implements [journal.Backend]. It sends an unanswered request again, and the
// server applies it once. If another server process answers and the old one may have
// applied the request, the outcome is unknown and the error journal.ErrUnavailable.
// Only if each commit is guarded by the receipt of an idempotency key is the request
// sent to the other process. A large batch is several requests; if one of them fails,
// its commits get the error in their results.
func (b *Backend) Commit(ctx context.Context, batch []journal.Commit) ([]journal.Result, error) {
	ctx, leave, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if all := slices.Collect(parts(batch)); len(all) != 1 {
		return b.commitParts(ctx, all...)
	}
	return b.commit(ctx, batch)
}

// commitParts sends parts of a batch one after the other.
func (b *Backend) commitParts(ctx context.Context, parts ...[]journal.Commit) ([]journal.Result, error) {
	var results []journal.Result
	for _, part := range parts {
		some, err := b.commit(ctx, part)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			some = slices.Repeat([]journal.Result{{Err: err}}, len(part))
		}
		results = append(results, some...)
	}
	return results, nil
}

// commit sends commits in one request. If some cannot be encoded, it sends the others
// and returns ErrInvalid for those.
func (b *Backend) commit(ctx context.Context, part []journal.Commit) ([]journal.Result, error) {
	req := Request{Batch: part, Partial: true}
	body, err := req.Encode()
	switch half := len(part) / 2; {
	case err != nil && half > 0:
		return b.commitParts(ctx, part[:half], part[half:])
	case err != nil:
		return nil, err
	}
	a, err := b.once(ctx, "/commit", body, !slices.ContainsFunc(part, unguarded))
	if err == nil && len(a.Results) != len(part) {
		err = fmt.Errorf("%w: the server answered %d commits with %d results", journal.ErrCorrupt, len(part), len(a.Results))
	}
	if err != nil {
		return nil, err
	}
	return a.Results, nil
}

// maxPart is about the most bytes of one request. A batch of a Store has at most 8 MiB
// of names and values, not counting names that repeat in checks.
const maxPart = 8 << 20

// parts splits a batch into parts that each fit into a request.
func parts(batch []journal.Commit) func(yield func([]journal.Commit) bool) {
	return func(yield func([]journal.Commit) bool) {
		for begin := 0; begin < len(batch); {
			end, size := begin, 0
			for end < len(batch) {
				size += weight(&batch[end])
				if end > begin && size > maxPart {
					break
				}
				end++
			}
			if !yield(batch[begin:end]) {
				return
			}
			begin = end
		}
	}
}

// weight returns about how many bytes a commit takes in a message.
func weight(c *journal.Commit) int {
	n := 200 + len(c.Actor) + len(c.Cause) + 150*len(c.Checks) + 200*len(c.Events) + 100*len(c.Writes)
	for _, k := range c.Checks {
		n += len(k.Key) + len(k.Stream)
	}
	for i := range c.Events {
		e := &c.Events[i]
		n += len(e.Stream) + len(e.Type) + len(e.Subject) + len(e.Data)
		for _, ref := range e.Refs {
			n += len(ref) + 3
		}
	}
	for i := range c.Writes {
		n += len(c.Writes[i].Key) + len(c.Writes[i].Value)
	}
	return n
}

// unguarded reports whether sending c twice is unsafe. A commit under an idempotency
// key is safe: its first check wants its receipt to be absent, and it writes that
// receipt. A Store that finds the receipt reads from it the outcome of the first
// commit.
func unguarded(c journal.Commit) bool {
	if len(c.Checks) == 0 {
		return true
	}
	receipt := c.Checks[0]
	return !receipt.At.IsZero() || !strings.HasPrefix(receipt.Key, "idem/") ||
		!slices.ContainsFunc(c.Writes, func(w journal.Write) bool { return w.Key == receipt.Key && w.Value != nil })
}
