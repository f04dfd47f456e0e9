package filestore_test

import (
	"fmt"
	"time"

	"github.com/thole-dev/thole/backend/backendtest/model"
	"github.com/thole-dev/thole/journal"
)

// stale changes one of c's checks so that it does not hold.
func (p *pair) stale(c *journal.Commit, s *model.Space) {
	k := &c.Checks[p.rand.IntN(len(c.Checks))]
	now := k.At
	for k.At == now {
		k.At = journal.Position{Epoch: s.Epoch, Seq: 1 + p.rand.Uint64N(s.Last)}
	}
}

// race puts a commit with the same check in front of both offers, so that exactly one
// of the two may be applied.
func (p *pair) race(ours, theirs *offer) {
	name := pairSpaces[p.rand.IntN(len(pairSpaces))]
	w, ok := p.past[name].certain()
	if !ok || w[name] != nil && w[name].Epoch == "" {
		return
	}
	check := journal.Check{Key: raced}
	if s := w[name]; s != nil {
		check.At = s.Records[raced].Version
		w.Place(name, &check.At)
	}
	for _, o := range []*offer{ours, theirs} {
		p.ids++
		o.raced = true
		o.batch = append([]journal.Commit{{
			Space: name, Now: time.Unix(int64(p.ids), 0).UTC(), Actor: "agent:a", Checks: []journal.Check{check},
			Writes: []journal.Write{{Key: raced, Value: fmt.Appendf(nil, "%d", p.ids)}},
		}}, o.batch...)
	}
}

// raced is the record that both sides write at the same time.
const raced = "raced/1"

// won checks that exactly one side won a race.
func (p *pair) won(ours, theirs *offer) error {
	if !ours.raced || ours.err != nil || theirs.err != nil || ours.results[0].Err != nil || theirs.results[0].Err != nil {
		return nil
	}
	p.did["races"]++
	if (ours.results[0].Conflict == nil) == (theirs.results[0].Conflict == nil) {
		return fmt.Errorf("two commits under the same check of %s: got %+v and %+v, want exactly one to win", ours.batch[0].Space, ours.results[0], theirs.results[0])
	}
	return nil
}
