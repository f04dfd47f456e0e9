package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

// signal is the record run/<inbox>/signal/<name>/<position>. The position is the run's
// version before the signal arrived, so the signals of one name are listed in order of
// arrival. The run's record counts them and is written whenever one arrives or is
// taken. A run that resumes another takes over its inbox. A taken signal stays, is
// skipped, and has a note: see taking. Earlier versions kept one signal per name, as
// run/<id>/signal/<name>.
type signal struct {
	Data json.RawMessage `json:"data,omitempty"`
}

// Bounds of signals: how many of one name may wait, and the bytes of one's data, which
// must fit into the receipt of the commit that takes it.
const (
	maxSignals    = 64
	maxSignalData = thole.MaxValueBytes - 8<<10
)

func signalsOf(inbox string) string { return key(inbox) + "/signal/" }

// inbox returns the id of the run whose keys hold r's signals.
func (r *Run) inbox() string {
	if r.own.Inbox != "" {
		return r.own.Inbox
	}
	return r.ID
}

// signalPrefix returns the prefix of the keys of the signals of a name. The one of an
// earlier version has oldSignalKey.
func (r *Run) signalPrefix(name string) string {
	return signalsOf(r.inbox()) + thole.KeyPart(name, signalRoom) + "/"
}

func (r *Run) oldSignalKey(name string) string { return signalsOf(r.inbox()) + url.PathEscape(name) }

// aPosition has the length of every position.
const aPosition = "0001ffffffff-0000000000000001"

// signalRoom is how many bytes a key has for a signal's percent-escaped name.
var signalRoom = thole.MaxNameBytes - len(signalsOf(thole.NewID("run"))) - len("/") - len(aPosition)

// Signal sends a signal to a run, such as an approval or an answer, and emits
// run.signalled. The run may wait for it already or later. The signal is kept until
// one commit of the run takes it; those of one name are taken in order of arrival. A
// run that waits for it goes on. Signals that a run has not taken when it ends stay in
// Run.Signals and pass to the run that resumes it; so do the last ones that it took,
// if it did nothing in its thread afterwards.
//
// Errors: ErrNotFound; ErrConflict when the run has ended, when its lease has run out
// (Signal then ends it), or when 64 of that name wait; ErrTooLarge for data over
// 504 KiB; ErrInvalid.
func (rs *Runs) Signal(ctx context.Context, id, name string, data json.RawMessage) error {
	ctx = thole.Call(ctx, "run.signal", id, name)
	err := rs.signal(ctx, id, name, data)
	if err != nil {
		return fmt.Errorf("signal run %s: %w", id, err)
	}
	return nil
}

func (rs *Runs) signal(ctx context.Context, id, name string, data json.RawMessage) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it has no name", thole.ErrInvalid)
	case len(data) > maxSignalData:
		return fmt.Errorf("%w: its data has %d bytes, the limit is %d; keep larger content as a blob", thole.ErrTooLarge, len(data), maxSignalData)
	}
	_, _, err := thole.Do(ctx, rs.sp, func(ctx context.Context) (none, thole.Receipt, error) {
		if _, err := rs.Get(ctx, id); err != nil { // Get ends a run whose lease has run out
			return none{}, thole.Receipt{}, err
		}
		return none{}, thole.Receipt{}, rs.commitSignal(ctx, id, name, data)
	})
	return err
}

func (rs *Runs) commitSignal(ctx context.Context, id, name string, data json.RawMessage) error {
	_, err := rs.sp.Update(ctx, func(tx *thole.Tx) error {
		r, err := load(tx, id)
		if err != nil {
			return err
		}
		switch {
		case r.Ended():
			return fmt.Errorf("%w: it is %s", thole.ErrConflict, r.Status)
		case r.Signals[name] >= maxSignals:
			return fmt.Errorf("%w: %d signals of that name wait already", thole.ErrConflict, r.Signals[name])
		}
		awaited := slices.Contains(r.Waits, name)
		if !awaited { // a run of an earlier version may wait for any name
			if err := signalName.Check(name); err != nil {
				return err
			}
		}
		tx.Put(r.signalPrefix(name)+r.Version.String(), signal{Data: data}, nil)
		if r.Signals == nil {
			r.Signals = make(map[string]int)
		}
		r.Signals[name]++
		if err := r.grow(tx); err != nil {
			return err
		}
		if awaited {
			if err := r.stopWaiting(tx, name); err != nil {
				return err
			}
		}
		r.emit(tx, "run.signalled", SignalledData{Run: r.ID, Signal: name, Status: r.Status})
		return nil
	})
	return err
}

// first returns the oldest signal of the given name and its key; key "": there is
// none.
func (r *Run) first(tx *thole.Tx, name string) (key string, s signal, err error) {
	if old := r.oldSignalKey(name); len(old) <= thole.MaxNameBytes {
		if found, err := tx.Load(old, &s); err != nil || found {
			return old, s, err
		}
	}
	if r.Signals[name] == 0 {
		return "", s, nil
	}
	// Every signal writes the run's record, so if this list changes before the commit,
	// this Tx runs again.
	notes, err := r.takings(tx)
	if err != nil {
		return "", s, err
	}
	q := thole.ListQuery{Prefix: r.signalPrefix(name), Limit: 1}
	for _, n := range notes {
		if n.Name == name {
			q.After = n.Signal
		}
	}
	recs, err := tx.List(q)
	if err != nil || len(recs) == 0 {
		return "", s, err
	}
	found, err := tx.Load(recs[0].Key, &s)
	if !found {
		return "", s, err
	}
	return recs[0].Key, s, nil
}

// take marks the signal under key, of the given name, as taken by r and returns the
// key of its taking note.
func (r *Run) take(tx *thole.Tx, name, key string) (note string, _ error) {
	note = takingsOf(r.ID) + r.Version.String()
	if key == r.oldSignalKey(name) {
		tx.Delete(key)
		tx.Put(note, taking{Name: name}, nil)
	} else {
		if r.Signals[name]--; r.Signals[name] <= 0 {
			delete(r.Signals, name)
		}
		tx.Put(note, taking{Name: name, Signal: key, Children: r.own.Children}, nil)
	}
	notes, err := r.takings(tx)
	if err != nil {
		return "", err
	}
	if len(notes) >= maxTakings {
		notes[0].forget(tx)
		r.own.Takings--
	}
	r.own.Takings++
	return note, r.stopWaiting(tx, name)
}

// inherit gives r the signals that old did not take, and before them those after whose
// taking old did nothing.
func (r *Run) inherit(tx *thole.Tx, sp *thole.Space, old *Run) error {
	if err := old.giveBack(tx, sp); err != nil {
		return err
	}
	prefix := signalsOf(old.ID)
	if old.own.Inbox == "" {
		recs, err := tx.List(thole.ListQuery{Prefix: prefix, Limit: maxSignals})
		if err != nil {
			return err
		}
		for _, rec := range recs { // of an earlier version: move it to its present key
			name, err := url.PathUnescape(rec.Key[len(prefix):])
			if err != nil || strings.Contains(rec.Key[len(prefix):], "/") {
				continue
			}
			if old.Signals == nil {
				old.Signals = make(map[string]int)
			}
			old.Signals[name]++
			tx.Delete(rec.Key)
			tx.Put(old.signalPrefix(name)+rec.Version.String(), rec.Value, nil)
		}
	}
	if len(old.Signals) > 0 {
		r.own.Inbox, r.Signals, old.Signals = old.inbox(), old.Signals, nil
	}
	old.put(tx)
	return nil
}

// doubts are signals that a failed commit may have taken. Only the run's worker can
// have taken them.
type doubts struct {
	mu sync.Mutex
	m  map[string]doubt // by name
}

type doubt struct {
	key  string // the signal's
	note string // key of the note that exists if the commit happened
	data json.RawMessage
}

func (d *doubts) add(name string, x doubt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.m == nil {
		d.m = make(map[string]doubt)
	}
	d.m[name] = x
}

func (d *doubts) get(name string) (doubt, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, ok := d.m[name]
	return x, ok
}

// settle drops the doubt about the signal under key. "" matches any key, because
// receipts of an earlier version do not hold it.
func (d *doubts) settle(name, key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if key == "" || d.m[name].key == key {
		delete(d.m, name)
	}
}

// taken is the answer of the commit that takes a signal.
type taken struct {
	signal
	Key string `json:"key,omitempty"`
}

// Wait waits for a signal of the given name, takes the oldest in one commit and
// returns its data. It takes one that has already arrived at once. Meanwhile the run
// and its thread have status waiting; if ctx ends the call, they keep it until the run
// next writes to its thread. Concurrent calls may wait for up to 64 names.
//
// After an error the signal may have been taken; call Wait again to get it. A repeat
// under an idempotency key returns it through any handle in any process; another name
// or run under that key is *ReusedKeyError. Errors: *CancelledError when the run is to
// end; ErrConflict for the 65th name; ErrInvalid; ctx's; those of the commit.
func (h *Handle) Wait(ctx context.Context, name string) (json.RawMessage, error) {
	ctx = thole.Call(ctx, "run.wait", h.id, name)
	if name == "" {
		return nil, fmt.Errorf("run %s: %w: a signal has a name", h.id, thole.ErrInvalid)
	}
	defer h.waits.enter(name)()
	ends, _ := ctx.Deadline()
	var until time.Time // ends by the store's clock; zero unless there may be other handles
	// Without run.waiting: concurrent calls would wake each other.
	w, err := h.sp.Watch(ctx, &thole.WatchOptions{Streams: []string{thread.Key(h.thread)}, Durable: true,
		Types: []string{"run.signalled", "run.cancel_requested", "run.finished"}})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if h.attached && !ends.IsZero() {
		until = h.sp.Store().Now().Add(time.Until(ends))
		defer func() {
			if errors.Is(ctx.Err(), context.Canceled) {
				h.leave(ctx, name, until)
			}
		}()
	}
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		// Without ctx's cancel: a signal that was taken must be returned.
		whole := context.WithoutCancel(ctx)
		if data, ok, err := h.receive(whole, name); ok || err != nil {
			return data, err
		}
		if came, err := h.idle(whole, name, until); err != nil {
			return nil, err
		} else if came {
			continue
		}
		if err := news(ctx, w); err != nil {
			return nil, err
		}
	}
}

// receive takes the oldest signal of the given name, if there is one. ctx's idempotency
// key covers only that commit, not the pending text that receive commits before.
func (h *Handle) receive(ctx context.Context, name string) (data json.RawMessage, ok bool, err error) {
	if _, _, err := commitText[none](thole.WithoutIdempotencyKey(ctx), h, goesOn, nil); err != nil {
		return nil, false, err
	}
	// The commit in doubt may still be under way. If its note exists it has happened;
	// if this Tx takes a signal, it conflicts.
	doubted, inDoubt := h.doubts.get(name)
	var now taken
	var note string
	got, _, err := thole.Update(ctx, h.sp, func(tx *thole.Tx) (taken, error) {
		now = taken{}
		if inDoubt {
			if rec, err := tx.Get(doubted.note); err != nil || rec.Exists() {
				return taken{signal: signal{Data: doubted.data}, Key: doubted.key}, err
			}
		}
		if err := h.there(tx); err != nil {
			return now, err
		}
		r, err := h.unless(tx)
		if err != nil {
			return now, err
		}
		if now.Key, now.signal, err = r.first(tx, name); err == nil && now.Key == "" {
			err = errNoSignal
		}
		if err != nil {
			return now, err
		}
		note, err = r.take(tx, name, now.Key)
		return now, err
	})
	switch {
	case errors.Is(err, errNoSignal):
		return nil, false, nil
	case err != nil:
		if now.Key != "" && !errors.Is(err, thole.ErrFenced) && !errors.Is(err, thole.ErrConflict) {
			h.doubts.add(name, doubt{key: now.Key, note: note, data: now.Data})
		}
		return nil, false, err
	}
	h.doubts.settle(name, got.Key)
	return got.Data, true, nil
}

// errNoSignal refuses to take a signal that has not arrived.
var errNoSignal = errors.New("no signal")

// Take is [Handle.Wait] that does not wait: if no signal has arrived, it returns
// arrived false at once and the run's status does not change.
func (h *Handle) Take(ctx context.Context, name string) (data json.RawMessage, arrived bool, err error) {
	ctx = thole.Call(ctx, "run.wait", h.id, name)
	if name == "" {
		return nil, false, fmt.Errorf("run %s: %w: a signal has a name", h.id, thole.ErrInvalid)
	}
	return h.receive(context.WithoutCancel(ctx), name)
}
