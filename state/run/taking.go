package run

import (
	"errors"
	"strings"

	"github.com/thole-dev/thole"
)

// A taking is the note run/<id>/taken/<position> that a run took a signal, named
// after the version that the run had before. Its own version says when. The signal
// stays where it lies until a run that resumes this one decides whose it is, this
// one succeeds, or maxTakings others are taken after it.
type taking struct {
	Name     string `json:"name"`
	Signal   string `json:"signal,omitempty"`   // its key; "": it is gone, one of an earlier version
	Children int    `json:"children,omitempty"` // sub-agents' runs that the run had then

	key string
	at  thole.Position
}

// maxTakings bounds how many takings a run notes.
const maxTakings = 16

func takingsOf(id string) string { return key(id) + "/taken/" }

// takings returns the notes of what r took, the oldest first. r's record is written
// with each: they are so at the commit, or this Tx runs again.
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

// forget removes the note, and the signal with it.
func (n *taking) forget(tx *thole.Tx) {
	tx.Delete(n.key)
	if n.Signal != "" {
		tx.Delete(n.Signal)
	}
}

// forgetTakings removes what r took.
func (r *Run) forgetTakings(tx *thole.Tx) error {
	notes, err := r.takings(tx)
	for _, n := range notes {
		n.forget(tx)
	}
	r.own.Takings = 0
	return err
}

// giveBack makes what r, which has ended, took and did nothing after be not taken.
// It lies in front of what r did not take. The rest was used, and goes.
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

// lastAct returns where in its thread's journal r, which has ended, last did
// something after the given position; zero: nowhere. That it waits, or chose a model,
// is no act, and neither is its end, with the reason that it leaves in the thread. What
// was removed or redacted since may have been one: it counts as the last.
func (r *Run) lastAct(tx *thole.Tx, sp *thole.Space, after thole.Position) (thole.Position, error) {
	reason := r.Status == Failed && r.Error != "" // the last block of all
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
	return r.Version, nil // there was at least the start of the run
}
