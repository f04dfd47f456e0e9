package run

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/cycle"
	"github.com/thole-dev/thole/state/thread"
)

// check reports active runs that nobody works on or whose thread is gone, queued runs
// that will not start, and runs that are below themselves, which only a commit from
// outside can make.
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
		if err := checkRun(ctx, sp, r, id, rec); err != nil {
			return err
		}
	}
	cycle.Find(below, func(from, to string) {
		r.Problem("%s is below itself: %s/child/… names %s", key(to), key(from), key(to))
	})
	return nil
}

// checkRun checks that a queued run is in its queue, and that an active one has a lease
// and a thread.
func checkRun(ctx context.Context, sp *thole.Space, r *thole.Report, id string, rec thole.Record) error {
	one, err := decode(id, rec)
	if err != nil || one.Ended() {
		return nil
	} else if one.Status == Queued {
		return checkQueued(ctx, sp, r, rec)
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

// checkQueued checks that a queued run waits in its slot or is active there. A run whose
// thread is gone ends when a worker or a reader comes upon it.
func checkQueued(ctx context.Context, sp *thole.Space, r *thole.Report, rec thole.Record) error {
	own, err := sp.Get(ctx, rec.Key+"/"+internal)
	if err != nil {
		return err
	}
	one, err := whole(strings.TrimPrefix(rec.Key, key("")), rec, own)
	if err != nil || one.own.Slot == "" {
		return nil
	}
	recs, err := sp.GetAll(ctx, rec.Key, one.own.Slot)
	if err != nil {
		return err
	}
	var s slot
	if recs[0].Version != rec.Version || recs[1].Exists() && recs[1].As(&s) != nil {
		return nil // it went on meanwhile, or its slot is reported
	}
	switch waits := slices.Contains(s.waiting(), one.ID); {
	case !waits && s.Active != one.ID:
		r.Problem("%s is queued but not in %s, so it never starts; cancel it and resume it", rec.Key, one.own.Slot)
	case waits && s.Active != "":
		active, err := sp.Get(ctx, key(s.Active))
		if errors.Is(err, thole.ErrInvalid) || err == nil && !active.Exists() {
			err = nil
			r.Problem("%s waits for %s, which is gone; starting another run of %s starts it", rec.Key, key(s.Active), one.Thread)
		}
		return err
	case waits && s.Active == "":
		r.Note("%s waits although no run is active, because records could not be read; reading the run or starting another starts it", rec.Key)
	}
	return nil
}
