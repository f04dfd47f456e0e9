package run

import (
	"errors"
	"strings"

	"github.com/thole-dev/thole"
)

// taking is the note run/<id>/taken/<position> that a run took a signal. The position
// is the run's version before that; the note's own version is when. The signal's
// record stays until a run resumes this one, this one succeeds, or maxTakings others
// are taken after it.
type taking struct {
	Name     string `json:"name"`
	Signal   string `json:"signal,omitempty"`   // its key; "": deleted, a signal of an earlier version
	Children int    `json:"children,omitempty"` // how many sub-agents' runs the run had started then

	key string
	at  thole.Position
}

// maxTakings bounds the notes that a run keeps.
const maxTakings = 16

func takingsOf(id string) string { return key(id) + "/taken/" }

// takings returns r's notes, the oldest first. Every note is written with r's record,
// so if they change before the commit, the Tx runs again.
func (r *Run) takings(tx *thole.Tx) ([]taking, error) {
	if r.own.Takings == 0 {
		return nil, nil
	}
	recs, err := tx.List(thole.ListQuery{Prefix: takingsOf(r.ID), Limit: maxTakings})
	if err != nil {
		return nil, err
	}
	notes := make([]taking, len(recs))
	for i, rec := range recs {
		if err := rec.As(&notes[i]); err != nil {
			return nil, err
		}
		notes[i].key, notes[i].at = rec.Key, rec.Version
	}
	return notes, nil
}

// forget deletes the note and its signal.
func (n *taking) forget(tx *thole.Tx) {
	tx.Delete(n.key)
	if n.Signal != "" {
		tx.Delete(n.Signal)
	}
}

// forgetTakings deletes all signals that r took, with their notes.
func (r *Run) forgetTakings(tx *thole.Tx) error {
	notes, err := r.takings(tx)
	for _, n := range notes {
		n.forget(tx)
	}
	r.own.Takings = 0
	return err
}

// giveBack makes untaken the signals after whose taking r, which has ended, did
// nothing. They come before those that r did not take. It deletes the other taken
// signals: r used them.
func (r *Run) giveBack(tx *thole.Tx, sp *thole.Space) error {
	notes, err := r.takings(tx)
	if err != nil || len(notes) == 0 {
		return err
	}
	acted, err := r.lastAct(tx, sp, notes[0].at)
	if err != nil {
		return err
	}
	for _, n := range notes {
		if n.Signal == "" || n.Children != r.own.Children || n.at.Compare(acted) < 0 {
			n.forget(tx)
			continue
		}
		if r.Signals == nil {
			r.Signals = make(map[string]int)
		}
		r.Signals[n.Name]++
		tx.Delete(n.key)
	}
	r.own.Takings = 0
	return nil
}

// lastAct returns the position of the last event after the given position by which r,
// which has ended, did something in its thread; zero if there is none. To wait, to
// choose a model and to end, with the failure block that this writes, do not count. A
// removed or redacted event counts, because it may have been r's.
func (r *Run) lastAct(tx *thole.Tx, sp *thole.Space, after thole.Position) (thole.Position, error) {
	reason := r.Status == Failed && r.Error != "" // the failure block is r's last
	for e, err := range sp.Events(tx.Context(), thole.ReadQuery{Stream: r.stream(), Backward: true}) {
		redacted := e.Data == nil
		switch {
		case errors.Is(err, thole.ErrTrimmed):
			return r.Version, nil
		case err != nil:
			return thole.Position{}, err
		case e.Position.Compare(after) <= 0:
			return thole.Position{}, nil
		case e.Cause != r.ID && !redacted || strings.HasPrefix(e.Type, "run."):
		case e.Type == "message.completed" || e.Type == "thread.rewound":
		case reason && e.Type == "message.updated":
			reason = false
		default:
			return e.Position, nil
		}
	}
	return r.Version, nil // the run's start is missing: events were removed
}
