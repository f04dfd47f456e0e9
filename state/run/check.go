package run

import (
	"context"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/cycle"
	"github.com/thole-dev/thole/state/thread"
)

// check reports active runs that nobody works on or whose thread is gone, and runs that
// are below themselves, which only a commit from outside can make.
func check(ctx context.Context, sp *thole.Space, r *thole.Report) error {
	below := make(map[string][]string)
	for rec, err := range sp.Records(ctx, key("")) {
		if err != nil {
			return err
		}
		id, rest, _ := strings.Cut(strings.TrimPrefix(rec.Key, key("")), "/")
		if child, ok := strings.CutPrefix(rest, "child/"); ok {
			below[id] = append(below[id], child)
		}
		if rest != "" {
			continue
		}
		if err := checkLease(ctx, sp, r, rec); err != nil {
			return err
		}
	}
	cycle.Find(below, func(from, to string) {
		r.Problem("%s is below itself: %s/child/… names %s", key(to), key(from), key(to))
	})
	return nil
}

// checkLease checks that an active run has a lease and a thread.
func checkLease(ctx context.Context, sp *thole.Space, r *thole.Report, rec thole.Record) error {
	var one Run
	if rec.As(&one) != nil || one.Ended() || one.Status == Queued {
		return nil // a queued run whose thread is gone ends when a worker or a reader comes upon it
	}
	recs, err := sp.GetAll(ctx, rec.Key, rec.Key+"/owner", thread.Key(one.Thread))
	switch {
	case err != nil:
		return err
	case recs[0].Version != rec.Version: // it went on meanwhile
	case !recs[1].Exists():
		r.Problem("%s is %s but nobody holds its lease", rec.Key, one.Status)
	case !recs[2].Exists():
		r.Note("%s is %s in thread %s, which is gone; it ends with its lease", rec.Key, one.Status, one.Thread)
	}
	return nil
}
