package filestore_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/faultfs"
	"github.com/thole-dev/thole/journal"
)

var _ filestore.FS = (*faultfs.FS)(nil)

// rates are the probabilities of the faults in a schedule.
var rates = faultfs.Faults{
	faultfs.ShortWrite: 150, faultfs.NoSpace: 150, faultfs.WriteError: 200,
	faultfs.ReadError: 600, faultfs.SyncError: 200, faultfs.PowerLoss: 800,
}

// The test runs random work on a disk with random faults, including crashes, and
// verifies what is left.
func TestNothingAcknowledgedIsLostUnderFaults(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("THOLE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("THOLE_SEED: got %q, want a number", text)
		}
	}
	counts := map[faultfs.Kind]int{}
	acknowledged, expiring, unsure := 0, 0, 0
	schedules := effort.Amount(60, 100, 1000)
	for i := range schedules {
		r := newSchedule(t, seed+uint64(i))
		for range 4 {
			r.round()
		}
		for k, n := range r.disk.Counts() {
			counts[k] += n
		}
		acknowledged += r.acknowledged
		expiring += r.expiring
		unsure += r.unsure
		if t.Failed() {
			t.Fatalf("schedule %d failed, THOLE_SEED=%d; the stores said:\n%s", i, r.seed, &r.log)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(rates)) {
		t.Logf("fired: %-13s %d", k, counts[k])
		if counts[k] == 0 {
			t.Errorf("no %s was fired", k)
		}
	}
	t.Logf("schedules: %d from THOLE_SEED=%d, commits acknowledged and found: %d, expiring records found in due spaces: %d, notes that lacked something: %d", schedules, seed, acknowledged, expiring, unsure)
	if expiring == 0 || unsure == 0 {
		t.Error("no record expired, or no note lacked anything")
	}
}

// schedule is random work on one store, and the expected content.
type schedule struct {
	*testing.T
	seed         uint64
	rand         *rand.Rand
	disk         *faultfs.FS
	store        *filestore.Store
	id           int
	stopped      bool // the store reported that it has stopped
	spaces       map[string]*expected
	acknowledged int
	expiring     int          // expiring records in spaces that were due
	unsure       int          // incomplete notes
	log          bytes.Buffer // the log of the stores
}

// expected is what a space must contain, and what it may contain.
type expected struct {
	commits map[int]known
	doubt   map[int]journal.Commit // their outcome is unknown
}

// known is a commit that was acknowledged or found.
type known struct {
	commit journal.Commit
	last   journal.Position
}

func newSchedule(t *testing.T, seed uint64) *schedule {
	return &schedule{
		T: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 3)), disk: faultfs.New(seed), spaces: map[string]*expected{},
	}
}

// round opens the store, works on it under faults, and verifies what is left.
func (r *schedule) round() {
	if r.Failed() {
		return
	}
	r.disk.Fail(rates)
	if r.open() {
		for range 10 + r.rand.IntN(50) {
			r.work()
		}
	}
	if r.rand.IntN(2) == 0 {
		r.stop(true)
	} else {
		r.stop(false)
	}
	r.disk.Fail(nil)
	r.verify()
}

func (r *schedule) open() bool {
	lag := time.Duration(-1)
	if r.rand.IntN(3) == 0 {
		lag = time.Microsecond // files are written in the background
	}
	s, err := filestore.Open(r.Context(), "/store", &filestore.Options{FS: r.disk, Log: slog.New(slog.NewTextHandler(&r.log, nil)), Lag: lag, SegmentBytes: 2000})
	if err != nil {
		return false
	}
	r.store, r.stopped = s, false
	return true
}

// stop closes the store or cuts the power.
func (r *schedule) stop(crash bool) {
	if crash {
		old := r.disk
		r.disk = old.Crash()
	}
	if r.store != nil {
		r.store.Close() // it may fail
		r.store = nil
	}
	if _, err := r.disk.Stat("/"); errors.Is(err, faultfs.ErrCrashed) {
		r.disk = r.disk.Crash()
	}
}

func (r *schedule) work() {
	n := r.rand.IntN(20)
	if r.store.Stopped() != nil && r.rand.IntN(2) == 0 {
		n = 19
	}
	switch {
	case n < 13:
		r.commit()
	case n < 16:
		r.store.Flush(r.Context())
	case n < 18:
		r.read()
	case n < 19:
		r.erase()
	default:
		r.stop(false)
		if r.disk.Fail(rates); !r.open() {
			r.disk.Fail(nil)
			r.stop(true)
			if !r.open() {
				r.Fatal("the store cannot be opened on a disk without faults")
			}
			r.disk.Fail(rates)
		}
	}
}

func (r *schedule) space(name string) *expected {
	e := r.spaces[name]
	if e == nil {
		e = &expected{map[int]known{}, map[int]journal.Commit{}}
		r.spaces[name] = e
	}
	return e
}

// commit commits a batch; the events of each commit identify it.
func (r *schedule) commit() {
	batch := make([]journal.Commit, 1+r.rand.IntN(4))
	ids := make([]int, len(batch))
	for i := range batch {
		r.id++
		ids[i] = r.id
		c := journal.Commit{Space: fmt.Sprint("user:", r.rand.IntN(3)), Now: time.Unix(int64(r.id), 0), Actor: "agent:a"}
		for range 1 + r.rand.IntN(3) {
			c.Events = append(c.Events, journal.Event{Stream: fmt.Sprint("s", r.rand.IntN(3)), Type: "x.made", Data: fmt.Appendf(nil, "%d", r.id)})
		}
		for _, key := range r.rand.Perm(6)[:r.rand.IntN(4)] {
			w := journal.Write{Key: fmt.Sprint("k/", key), Value: fmt.Appendf(nil, `{"id":%d,"text":%q}`, r.id, strings.Repeat("x", r.rand.IntN(100)))}
			switch r.rand.IntN(8) {
			case 0, 1:
				w.Value = nil
			case 2, 3:
				w.Expires = someday
			}
			c.Writes = append(c.Writes, w)
		}
		batch[i] = c
	}
	results, err := r.store.Commit(r.Context(), batch)
	if r.stopped && err == nil {
		r.Error("a commit succeeded after the store had said that it stopped")
	}
	r.stopped = r.stopped || err != nil && strings.Contains(err.Error(), "stopped, because its disk failed")
	for i, id := range ids {
		e := r.space(batch[i].Space)
		if errors.Is(err, journal.ErrFull) || err == nil && results[i].Err != nil { // nothing of it is applied, now or later
			continue
		} else if err != nil {
			e.doubt[id] = batch[i]
		} else {
			e.commits[id] = known{batch[i], results[i].Last}
			r.acknowledged++
		}
	}
}

// read looks for torn reads: whatever can be read was written by one commit.
func (r *schedule) read() {
	name := fmt.Sprint("user:", r.rand.IntN(3))
	records, err := r.store.List(r.Context(), name, journal.ListQuery{})
	if err != nil {
		r.readable(err)
		return
	}
	for _, rec := range records {
		var v struct{ ID int }
		if err := json.Unmarshal(rec.Value, &v); err != nil {
			r.Errorf("record %s: got %q, %v", rec.Key, rec.Value, err)
		}
		if !r.wrote(name, v.ID, rec) {
			r.Errorf("record %s: got %q of version %v, which commit %d did not write", rec.Key, rec.Value, rec.Version, v.ID)
		}
	}
	page, err := r.store.Read(r.Context(), name, journal.ReadQuery{})
	if err != nil {
		r.readable(err)
		return
	}
	for i, e := range page.Events {
		if e.Position.Seq != uint64(i+1) {
			r.Errorf("event %d has seq %d", i, e.Position.Seq)
		}
	}
}

// readable fails if the error of a read reports damage.
func (r *schedule) readable(err error) {
	var path *fs.PathError
	if errors.Is(err, journal.ErrCorrupt) && !errors.As(err, &path) {
		r.Errorf("read: got %v", err)
	}
}

// wrote reports whether the commit wrote the value.
func (r *schedule) wrote(space string, id int, rec journal.Record) bool {
	e := r.space(space)
	c, ok := e.commits[id]
	commit := c.commit
	if !ok {
		if commit, ok = e.doubt[id]; !ok {
			return false
		}
	} else if c.last != rec.Version {
		return false
	}
	return slices.ContainsFunc(commit.Writes, func(w journal.Write) bool {
		return w.Key == rec.Key && string(w.Value) == string(rec.Value)
	})
}

// erase redacts an event, which rewrites journals and must lose nothing else.
func (r *schedule) erase() {
	name := fmt.Sprint("user:", r.rand.IntN(3))
	heads, err := r.store.Heads(r.Context(), name)
	if err != nil || heads[0].Last.Seq == 0 {
		return
	}
	at := heads[0].Last
	at.Seq = 1 + r.rand.Uint64N(at.Seq)
	r.store.Purge(r.Context(), name, journal.Purge{Events: []journal.Position{at}})
}

// verify opens the store on a working disk and compares it with what was acknowledged.
// Afterwards nothing is in doubt.
func (r *schedule) verify() {
	if !r.open() {
		_, err := filestore.Open(r.Context(), "/store", &filestore.Options{FS: r.disk, Log: quiet})
		r.Errorf("open after recovery: got %v", err)
		return
	}
	due, err := dueSpaces(r.Context(), r.store) // before anything else reads a space
	if err != nil {
		r.Errorf("spaces that are due after recovery: got %v", err)
	}
	r.unsure += r.store.Unsure()
	if err := r.store.Check(r.Context()); err != nil {
		r.Errorf("check after recovery: got %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(r.spaces)) {
		r.verifySpace(name, r.spaces[name])
		r.verifyDue(name, due)
	}
	if err := r.store.Flush(r.Context()); err != nil {
		r.Errorf("flush after recovery: got %v", err)
	}
	r.stop(r.rand.IntN(2) == 0)
}

func (r *schedule) verifySpace(name string, e *expected) {
	heads, err := r.store.Heads(r.Context(), name)
	if err != nil {
		r.Errorf("head of %s: got %v", name, err)
		return
	}
	if n := len(heads[0].Epochs); n > 1 {
		r.Errorf("%s has %d epochs: a crash was taken for a change by hand: %v", name, n, r.store.Report())
	}
	var events []journal.Event
	for q := (journal.ReadQuery{}); ; {
		page, err := r.store.Read(r.Context(), name, q)
		if err != nil {
			r.Errorf("journal of %s: got %v", name, err)
			return
		}
		events = append(events, page.Events...)
		if q.After = page.Next; page.Next.IsZero() {
			break
		}
	}
	r.verifyJournal(name, e, events)
	want := map[string]journal.Record{}
	order := slices.SortedFunc(maps.Values(e.commits), func(a, b known) int { return a.last.Compare(b.last) })
	for _, c := range order {
		for _, w := range c.commit.Writes {
			if delete(want, w.Key); w.Value != nil {
				want[w.Key] = journal.Record{Key: w.Key, Value: w.Value, Version: c.last, Updated: c.commit.Now.UTC()}
			}
		}
	}
	got, err := r.store.List(r.Context(), name, journal.ListQuery{})
	if err != nil || len(got) != len(want) {
		r.Errorf("records of %s: got %d, %v; want %d", name, len(got), err, len(want))
	}
	for _, rec := range got {
		if w := want[rec.Key]; w.Version != rec.Version || string(w.Value) != string(rec.Value) || !w.Updated.Equal(rec.Updated) {
			r.Errorf("record %s of %s: got %s of %v, want %s of %v", rec.Key, name, rec.Value, rec.Version, w.Value, w.Version)
		}
	}
}

// verifyDue fails if a record expires in a space that was not due.
func (r *schedule) verifyDue(name string, due []string) {
	expiring, err := r.store.List(r.Context(), name, journal.ListQuery{DueBy: someday})
	if err != nil {
		r.Errorf("expired records of %s: got %v", name, err)
	}
	if len(expiring) > 0 && !slices.Contains(due, name) {
		r.Errorf("%d records expire in %s, which was not due after recovery: %v were", len(expiring), name, due)
	}
	r.expiring += len(expiring)
}

// verifyJournal finds each event's commit: acknowledged commits at their positions,
// those in doubt complete or not at all.
func (r *schedule) verifyJournal(name string, e *expected, events []journal.Event) {
	byTime := map[int][]journal.Event{} // redaction keeps the time, which identifies the commit
	for i, ev := range events {
		if ev.Position.Seq != uint64(i+1) {
			r.Errorf("%s: event %d has seq %d", name, i, ev.Position.Seq)
		}
		id := int(ev.Time.Unix())
		byTime[id] = append(byTime[id], ev)
		if ev.Data != nil && string(ev.Data) != fmt.Sprint(id) {
			r.Errorf("%s: event %v has data %s, want %d", name, ev.Position, ev.Data, id)
		}
	}
	for id, c := range e.commits {
		got := byTime[id]
		if len(got) != len(c.commit.Events) || got[len(got)-1].Position != c.last {
			r.Errorf("%s: commit %d at %v was acknowledged; found of it: %v", name, id, c.last, got)
		}
		delete(byTime, id)
	}
	for id, got := range byTime {
		c, ok := e.doubt[id]
		if !ok || len(got) != len(c.Events) {
			r.Errorf("%s: of commit %d, which was not acknowledged, found: %v", name, id, got)
		}
		e.commits[id] = known{c, got[len(got)-1].Position}
	}
	clear(e.doubt)
}
