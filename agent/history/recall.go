package history

import (
	"context"
	"errors"
	"slices"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// Recalled is what a thread holds for a run: see [Recall].
type Recalled struct {
	Request  []thread.Block // what the run is asked
	Older    Message        // what it is asked before that, without attachments, for each may be large
	Response []thread.Block // what the run has said, and those that it goes on from
	Past     []*thread.Turn // the turns before, the oldest first
	Other    *run.Run       // the run without a prompt before, which may have been asked what was posted until then; of those that go on from it, the last. nil: there is none
}

// maxPosted bounds how many turns Recall looks through for messages: as many as runs can
// wait.
const maxPosted = 256

// Recall reads a thread for a run to which the turns mine belong: its own, and those of the
// runs that it goes on from. It returns at most keep turns of the past.
//
// A run with a prompt is asked that. One without is asked what was posted since the run
// before that was asked so, since an answer that no run gave, or since a summary; it looks
// through about maxPosted turns. A run that goes on from others is asked what the first of
// them was, and then its own prompt.
func Recall(ctx context.Context, sp *thole.Space, id string, mine []string, keep int) (*Recalled, error) {
	w := &walk{runs: run.In(sp, nil), keep: keep, mine: map[string]bool{}}
	for _, turn := range mine {
		w.mine[turn] = true
	}
	for q := (&thread.Query{Last: keep + len(mine)}); ; {
		page, err := thread.In(sp).Turns(ctx, id, q)
		if err != nil {
			return nil, err
		}
		for _, t := range slices.Backward(page.Items) {
			if err := w.turn(ctx, t); err != nil {
				return nil, err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" || w.over() {
			break
		}
	}
	if w.alone && len(w.posted) > 0 {
		w.Request, w.posted = slices.Concat(w.posted[0], w.Request), w.posted[1:]
	}
	slices.Reverse(w.posted)
	w.Older = Fold(thread.User, slices.Concat(w.posted...))
	slices.Reverse(w.Past)
	return &w.Recalled, nil
}

// walk goes back through the turns of a thread.
type walk struct {
	Recalled // Past: the newest first
	runs     *run.Runs
	keep     int

	mine       map[string]bool  // turns that were not met yet
	alone      bool             // the first of mine was opened with nothing
	looking    bool             // for what was posted
	looked     int              // turns before mine
	posted     [][]thread.Block // is asked, the newest first
	summarized bool             // what was before is on older pages
}

func (w *walk) over() bool {
	return w.looked >= maxPosted || len(w.mine) == 0 && !w.looking && (w.summarized || len(w.Past) == w.keep)
}

func (w *walk) turn(ctx context.Context, t *thread.Turn) error {
	asked := t.Asked()
	if w.mine[t.ID] && t.Run != "" { // a summary has the id of a turn
		delete(w.mine, t.ID)
		w.Request, w.Response = slices.Concat(asked.Opening, w.Request), slices.Concat(t.Response, w.Response)
		w.alone = len(asked.Opening) == 0
		w.looking = len(w.mine) == 0 && (w.alone || !asked.Own)
		return nil
	}
	if len(w.mine) == 0 {
		w.looked++
	}
	switch {
	case t.Run == "" && t.Status == thread.Pending:
		if w.post(asked.Opening) {
			return nil // it is asked, and not of the past
		}
	case t.Run == "" && len(t.Response) > 0:
		w.looking = false
	case t.Run != "":
		w.post(asked.Joined)
		if prompted := asked.Own && len(asked.Opening) > 0; w.looking && !prompted {
			if err := w.other(ctx, t, asked.Own); err != nil {
				return err
			}
		}
	}
	if len(w.Past) < w.keep && !w.summarized && says(t) {
		w.Past = append(w.Past, t)
		w.summarized = len(t.Response) == 1 && t.Response[0].Type == thread.Summary
	}
	return nil
}

// post reports whether the run is asked what was posted.
func (w *walk) post(blocks []thread.Block) bool {
	switch {
	case !w.looking || len(blocks) == 0:
		return false
	case w.Other != nil:
		w.looking = false // that was asked it
		return false
	}
	w.posted = append(w.posted, blocks)
	return true
}

// other looks at the run of t, which had no prompt.
func (w *walk) other(ctx context.Context, t *thread.Turn, own bool) error {
	r, err := w.runs.Peek(ctx, t.Run)
	switch {
	case errors.Is(err, thole.ErrNotFound):
		w.looking = false
		return nil
	case err != nil:
		return err
	case r.GoesOn(), own && r.Status == run.Succeeded && len(t.Response) == 0:
		return nil // it stands for another one, or had nothing to answer
	}
	if w.Other, err = w.runs.Last(ctx, r); err != nil {
		return err
	}
	w.looking = own && w.Other.Status != run.Succeeded // perhaps it only named another one
	return nil
}

// says reports whether t holds more than that its run failed.
func says(t *thread.Turn) bool {
	return len(t.Request) > 0 || slices.ContainsFunc(t.Response, func(b thread.Block) bool { return b.Type != thread.Failure })
}
