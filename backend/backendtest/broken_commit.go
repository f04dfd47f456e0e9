package backendtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/thole-dev/thole/journal"
)

// committing is a good backend with another Commit.
type committing struct {
	journal.Backend
	commit func(ctx context.Context, good journal.Backend, batch []journal.Commit) ([]journal.Result, error)
}

func (b committing) Commit(ctx context.Context, batch []journal.Commit) ([]journal.Result, error) {
	return b.commit(ctx, b.Backend, batch)
}

// changing wraps a good backend so that it gets changed commits.
func changing(change func(i int, c *journal.Commit)) func(journal.Backend) journal.Backend {
	return func(good journal.Backend) journal.Backend {
		return committing{good, func(ctx context.Context, good journal.Backend, batch []journal.Commit) ([]journal.Result, error) {
			changed := slices.Clone(batch)
			for i := range changed {
				c := &changed[i]
				c.Checks, c.Events, c.Writes = slices.Clone(c.Checks), slices.Clone(c.Events), slices.Clone(c.Writes)
				change(i, c)
			}
			return good.Commit(ctx, changed)
		}}
	}
}

// answering wraps a good backend so that after runs after each batch.
func answering(after func(ctx context.Context, good journal.Backend, batch []journal.Commit, results []journal.Result) error) func(journal.Backend) journal.Backend {
	return func(good journal.Backend) journal.Backend {
		return committing{good, func(ctx context.Context, good journal.Backend, batch []journal.Commit) ([]journal.Result, error) {
			results, err := good.Commit(ctx, batch)
			if err == nil {
				err = after(ctx, good, batch, results)
			}
			return results, err
		}}
	}
}

func brokenCommits() []broken {
	return []broken{
		{"writes happen although a check failed", "check/a failed check changes nothing", wrapped(answering(keepWrites))},
		{"a conflict fails the whole batch", "batch/a conflict fails no other commit", wrapped(answering(failBatch))},
		{"a commit that is refused fails the whole batch", "batch/a commit that cannot be taken fails no other", wrapped(refuseBatch)},
		{"later commits of a batch are not checked", "batch/an earlier commit is visible to the checks of a later one", wrapped(changing(checkFirstOnly))},
		{"seqs have gaps", "commit/events take dense positions in order", wrapped(answering(burnSeq))},
		{"the last check is forgotten", "check/every check is evaluated", wrapped(changing(dropLastCheck))},
		{"checks are evaluated backward", "check/checks are evaluated in order and the first failure is reported", wrapped(changing(reverseChecks))},
		{"checks and writes are two steps", "concurrency/counters under a check lose nothing", wrapped(checkThenWrite)},
		{"a conflict does not say what was there", "check/a conflict says what was wanted and what was there", wrapped(answering(hideActual))},
		{"JSON is decoded and encoded again", "commit/JSON stays as it was compacted, byte for byte", wrapped(changing(encodeAgain))},
		{"times are cut to milliseconds", "commit/everything round-trips exactly", wrapped(changing(cutTimes))},
		{"the engine's clock sets the time", "commit/events get the commit's time, actor and cause", wrapped(changing(ownClock))},
		{"expired notify records can be touched", "expiry/an expired notify record is a conflict to check and write", wrapped(answering(touchExpired))},
		{"expired plain records still count", "expiry/an expired plain record counts as absent to a check", wrapped(countExpired)},
		{"names differ only by case, so they are the same", "name/names that look alike are different", wrapped(changing(foldKeys))},
		{"large values are refused", "limit/a value and an event of 512 KiB", wrapped(refuseLarge)},
	}
}

func keepWrites(ctx context.Context, good journal.Backend, batch []journal.Commit, results []journal.Result) error {
	for i, c := range batch {
		if results[i].Conflict != nil && len(c.Writes) > 0 {
			c.Checks, c.Events = nil, nil
			if _, err := good.Commit(ctx, []journal.Commit{c}); err != nil {
				return err
			}
		}
	}
	return nil
}

func failBatch(_ context.Context, _ journal.Backend, _ []journal.Commit, results []journal.Result) error {
	for _, r := range results {
		if r.Conflict != nil && len(results) > 1 {
			return errors.New("rolled back")
		}
	}
	return nil
}

func refuseBatch(good journal.Backend) journal.Backend {
	return committing{good, func(ctx context.Context, good journal.Backend, batch []journal.Commit) ([]journal.Result, error) {
		for i := range batch {
			if !utf8.ValidString(batch[i].Actor) {
				return nil, journal.ErrInvalid
			}
		}
		return good.Commit(ctx, batch)
	}}
}

func checkFirstOnly(i int, c *journal.Commit) {
	if i > 0 {
		c.Checks = nil
	}
}

func burnSeq(ctx context.Context, good journal.Backend, batch []journal.Commit, _ []journal.Result) error {
	_, err := good.Commit(ctx, []journal.Commit{{Space: batch[0].Space, Now: batch[0].Now, Writes: []journal.Write{{Key: "absent"}}}})
	return err
}

func dropLastCheck(_ int, c *journal.Commit) {
	if len(c.Checks) > 1 {
		c.Checks = c.Checks[:len(c.Checks)-1]
	}
}

func reverseChecks(_ int, c *journal.Commit) { slices.Reverse(c.Checks) }

// checkThenWrite evaluates checks on keys with a separate read. To make sure that it
// loses an update, two committers wait for each other between the two steps.
func checkThenWrite(good journal.Backend) journal.Backend {
	return checkThenWriteAt(make(chan struct{}), good)
}

func checkThenWriteAt(meet chan struct{}, good journal.Backend) journal.Backend {
	return committing{good, func(ctx context.Context, good journal.Backend, batch []journal.Commit) ([]journal.Result, error) {
		unchecked := slices.Clone(batch)
		for i, c := range batch {
			for _, k := range c.Checks {
				if records, err := good.Get(ctx, c.Space, k.Key); err != nil || records[0].Version != k.At {
					return good.Commit(ctx, batch)
				}
			}
			unchecked[i].Checks = nil
		}
		select {
		case meet <- struct{}{}:
		case <-meet:
		case <-time.After(20 * time.Millisecond): // there is no other committer
		}
		return good.Commit(ctx, unchecked)
	}}
}

func hideActual(_ context.Context, _ journal.Backend, _ []journal.Commit, results []journal.Result) error {
	for _, r := range results {
		if r.Conflict != nil {
			r.Conflict.Actual = journal.Position{}
		}
	}
	return nil
}

func cutTimes(_ int, c *journal.Commit) {
	c.Now = c.Now.Truncate(time.Millisecond)
	for i := range c.Writes {
		c.Writes[i].Expires = c.Writes[i].Expires.Truncate(time.Millisecond)
	}
}

func ownClock(_ int, c *journal.Commit) { c.Now = time.Now().UTC().Truncate(time.Microsecond) }

// touchExpired repeats a commit as if the record had not expired yet.
func touchExpired(ctx context.Context, good journal.Backend, batch []journal.Commit, results []journal.Result) error {
	for i, c := range batch {
		if results[i].Conflict == nil || !results[i].Conflict.Expired {
			continue
		}
		c.Now = time.Unix(1, 0)
		again, err := good.Commit(ctx, []journal.Commit{c})
		if err != nil {
			return err
		}
		results[i] = again[0]
	}
	return nil
}

// countExpired accepts a check on the version of an expired plain record.
func countExpired(good journal.Backend) journal.Backend {
	return committing{good, func(ctx context.Context, good journal.Backend, batch []journal.Commit) ([]journal.Result, error) {
		changed := slices.Clone(batch)
		for i, c := range batch {
			changed[i].Checks = slices.DeleteFunc(slices.Clone(c.Checks), func(k journal.Check) bool {
				records, err := good.Get(ctx, c.Space, k.Key)
				r := records[0]
				return err == nil && k.Key != "" && r.Exists() && r.Expired(c.Now) && !r.Notify && r.Version == k.At
			})
		}
		return good.Commit(ctx, changed)
	}}
}

func foldKeys(_ int, c *journal.Commit) {
	for i := range c.Checks {
		c.Checks[i].Key = lower(c.Checks[i].Key)
	}
	for i := range c.Writes {
		c.Writes[i].Key = lower(c.Writes[i].Key)
	}
}

// lower maps A–Z to a–z, as a case-insensitive file system does.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func refuseLarge(good journal.Backend) journal.Backend {
	return committing{good, func(ctx context.Context, good journal.Backend, batch []journal.Commit) ([]journal.Result, error) {
		for _, c := range batch {
			for _, w := range c.Writes {
				if len(w.Value) > journal.MaxValueBytes/2 {
					return nil, journal.ErrTooLarge
				}
			}
		}
		return good.Commit(ctx, batch)
	}}
}

func encodeAgain(_ int, c *journal.Commit) {
	for i := range c.Events {
		c.Events[i].Data = reencoded(c.Events[i].Data)
	}
	for i := range c.Writes {
		c.Writes[i].Value = reencoded(c.Writes[i].Value)
	}
}

func reencoded(data json.RawMessage) json.RawMessage {
	if data == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return data
	}
	again, err := json.Marshal(v)
	if err != nil {
		return data
	}
	return again
}
