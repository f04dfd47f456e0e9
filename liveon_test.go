package thole_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
)

// living opens a store in which a thing lives for an hour after the last write below
// it. It returns the space and the backend, which records its calls.
func living(t *testing.T) (*thole.Space, *faults) {
	t.Helper()
	f := &faults{Backend: memstore.New()}
	s := openOn(t, f, with(&thole.Options{Sweep: -1}, lasting(time.Hour)))
	return s.Space("project:p"), f
}

// old puts a thing that expires in a minute.
func old(t *testing.T, sp *thole.Space) thole.Record {
	t.Helper()
	putFor(t, sp, "thing/1", 1, time.Minute, true)
	return get(t, sp, "thing/1")
}

func get(t *testing.T, sp *thole.Space, key string) thole.Record {
	t.Helper()
	rec, err := sp.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func below(key string) thole.Commit {
	return thole.Commit{Writes: []thole.Write{{Key: key, Value: json.RawMessage("1")}}}
}

// moved reports whether rec expires in an hour.
func moved(rec thole.Record) bool {
	return rec.Exists() && !rec.Expires.Before(time.Now().Add(time.Hour))
}

func TestTheEndMovesInTheCommitOfTheWrite(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, sp *thole.Space, runs *int) error{
		"a commit": func(ctx context.Context, sp *thole.Space, _ *int) error {
			_, err := sp.Commit(ctx, below("thing/1/x"))
			return err
		},
		"an application's commit": func(ctx context.Context, sp *thole.Space, _ *int) error {
			_, err := sp.Commit(ctx, below("app/thing/1/x"))
			return err
		},
		"an event": func(ctx context.Context, sp *thole.Space, _ *int) error {
			_, err := sp.Commit(ctx, thole.Commit{Events: []thole.Event{{Stream: "thing/1", Type: "a.b"}}})
			return err
		},
		"a commit that checks the version": func(ctx context.Context, sp *thole.Space, _ *int) error {
			c := below("thing/1/x")
			rec, err := sp.Get(ctx, "thing/1")
			c.Checks = []thole.Check{{Key: "thing/1", At: rec.Version}}
			if err == nil {
				_, err = sp.Commit(ctx, c)
			}
			return err
		},
		"an update that looks": func(ctx context.Context, sp *thole.Space, runs *int) error {
			_, err := sp.Update(ctx, func(tx *thole.Tx) error {
				*runs++
				_, err := tx.Get("thing/1")
				tx.Put("thing/1/x", 1, nil)
				return err
			})
			return err
		},
		"an update that demands": func(ctx context.Context, sp *thole.Space, runs *int) error {
			rec, err := sp.Get(ctx, "thing/1")
			if err != nil {
				return err
			}
			_, err = sp.Update(ctx, func(tx *thole.Tx) error {
				*runs++
				tx.Check(thole.Check{Key: "thing/1", At: rec.Version})
				tx.Put("thing/1/x", 1, nil)
				return nil
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sp, f := living(t)
				was := old(t, sp)
				runs, n := 0, len(f.commits())
				if err := write(t.Context(), sp, &runs); err != nil {
					t.Fatal(err)
				}
				if got := len(f.commits()) - n; got != 1 || runs > 1 {
					t.Errorf("it took %d commits and %d runs of the function, want one", got, runs)
				}
				rec := get(t, sp, "thing/1")
				if !moved(rec) || string(rec.Value) != string(was.Value) || rec.Notify != was.Notify {
					t.Errorf("the thing: got %+v, want %+v an hour later", rec, was)
				}
			})
		})
	}
}

func TestAWriteThatNeedsNoMoveReadsItsOwnerOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, f := living(t)
		putFor(t, sp, "thing/1", 1, 2*time.Hour, true)
		n, gets := len(f.commits()), f.gets
		if _, err := sp.Commit(t.Context(), below("thing/1/x")); err != nil {
			t.Fatal(err)
		}
		batches := f.commits()[n:]
		if len(batches) != 1 || len(batches[0][0].Checks) != 0 || len(batches[0][0].Writes) != 1 || f.gets-gets != 1 {
			t.Errorf("got %d reads and the commits %+v", f.gets-gets, batches)
		}
	})
}

// Other writers change the owner between the read of the owner and the commit.
func TestAnOwnerThatChangesBeforeTheCommitStillLivesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i, test := range []struct {
			name   string
			do     func(t *testing.T, other *thole.Space)
			checks bool // the write checks the owner's version
			want   error
			owner  string // the owner's value afterwards
		}{
			{"it is changed", func(t *testing.T, other *thole.Space) { putFor(t, other, "thing/1", 2, 10*time.Minute, true) }, false, nil, "2"},
			{"it is changed, which the writer minds", func(t *testing.T, other *thole.Space) { putFor(t, other, "thing/1", 2, 10*time.Minute, true) }, true, thole.ErrConflict, "2"},
			{"it is deleted", func(t *testing.T, other *thole.Space) { remove(t, other, "thing/1") }, false, nil, ""},
			{"it is deleted, which the writer minds", func(t *testing.T, other *thole.Space) { remove(t, other, "thing/1") }, true, thole.ErrConflict, ""},
			{"its time is up", func(t *testing.T, other *thole.Space) {
				time.Sleep(2 * time.Minute)
				if err := other.Store().Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
			}, false, nil, ""},
		} {
			sp, f := living(t)
			was := old(t, sp)
			f.shared = true
			other := openOn(t, f.Backend, &thole.Options{Sweep: -1}).Space("project:p")
			m := &meanwhile{faults: f, do: func() { test.do(t, other) }}
			s := openOn(t, m, with(&thole.Options{Sweep: -1}, lasting(time.Hour)))
			c := below("app/thing/1/x")
			if test.checks {
				c.Checks = []thole.Check{{Key: "thing/1", At: was.Version}}
			}
			var conflict *thole.ConflictError
			_, err := s.Space("project:p").Commit(t.Context(), c)
			if !errors.Is(err, test.want) || test.want != nil && (!errors.As(err, &conflict) || conflict.Check != c.Checks[0]) {
				t.Errorf("%d, %s: got %v, want %v", i, test.name, err, test.want)
			}
			if rec := get(t, other, "thing/1"); string(rec.Value) != test.owner || rec.Exists() && test.want == nil && !moved(rec) {
				t.Errorf("%d, %s: the owner is %+v, want %s", i, test.name, rec, test.owner)
			}
			if got := get(t, other, "app/thing/1/x").Exists(); got != (test.want == nil) {
				t.Errorf("%d, %s: what was written is there: %v", i, test.name, got)
			}
		}
	})
}

// meanwhile is a backend that calls a function right before the first commit.
type meanwhile struct {
	*faults
	do   func()
	once sync.Once
}

func (m *meanwhile) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	m.once.Do(m.do)
	return m.faults.Commit(ctx, batch)
}

func (m *meanwhile) Close() error { return nil }

func remove(t *testing.T, sp *thole.Space, key string) {
	t.Helper()
	if _, err := sp.Commit(t.Context(), thole.Commit{Writes: []thole.Write{{Key: key}}}); err != nil {
		t.Fatal(err)
	}
}

// A writer of the owner sets its expiry itself, and nothing moves it.
func TestAnUpdateThatWritesTheOwnerSaysWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, _ := living(t)
		old(t, sp)
		end := time.Now().Add(10 * time.Minute).UTC()
		_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
			tx.Put("thing/1/x", 1, nil)
			tx.Put("thing/1", 2, &thole.WriteOptions{Expires: end})
			return nil
		})
		if rec := get(t, sp, "thing/1"); err != nil || !rec.Expires.Equal(end) {
			t.Errorf("got %v, %v, want %v", rec.Expires, err, end)
		}
		_, err = sp.Update(t.Context(), func(tx *thole.Tx) error {
			tx.Put("thing/1/x", 1, nil)
			tx.Delete("thing/1")
			return nil
		})
		if rec := get(t, sp, "thing/1"); err != nil || rec.Exists() {
			t.Errorf("deleted: got %+v, %v", rec, err)
		}
	})
}

// full returns a commit below a thing that has no room for another write.
func full() thole.Commit {
	var c thole.Commit
	for i := range thole.MaxCommitItems {
		c.Writes = append(c.Writes, thole.Write{Key: fmt.Sprintf("thing/1/%03d", i), Value: json.RawMessage("1")})
	}
	return c
}

// large returns a commit below a thing that has no room for more bytes.
func large() thole.Commit {
	var c thole.Commit
	for i := range thole.MaxCommitBytes / thole.MaxValueBytes {
		key := fmt.Sprintf("thing/1/%03d", i)
		value := `"` + strings.Repeat("x", thole.MaxValueBytes-2-len(key)) + `"`
		c.Writes = append(c.Writes, thole.Write{Key: key, Value: json.RawMessage(value)})
	}
	return c
}

func TestWhatIsAcknowledgedLivesOnWhereverTheProcessDies(t *testing.T) {
	for name, c := range map[string]thole.Commit{"alone": below("thing/1/000"), "with no room": full(), "with no room for bytes": large()} {
		for n := 1; n <= 3; n++ {
			for _, w := range []when{before, after} {
				synctest.Test(t, func(t *testing.T) {
					sp, f := living(t)
					f.shared = true
					old(t, sp)
					f.breakFrom(n, w)
					_, err := sp.Commit(t.Context(), c)
					if n == 3 && err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					time.Sleep(2 * time.Minute)
					other := openOn(t, f.Backend, &thole.Options{Sweep: -1}).Space("project:p")
					if err := other.Store().Sweep(t.Context()); err != nil {
						t.Fatal(err)
					}
					for _, key := range []string{"thing/1", "thing/1/000"} {
						if err == nil && !get(t, other, key).Exists() {
							t.Errorf("%s, cut %d: %s was acknowledged 2 minutes ago and is gone", name, n, key)
						}
					}
				})
			}
		}
	}
}

// leaving is a backend whose caller's context is cancelled after some calls.
type leaving struct {
	*faults
	left  int
	leave func()
}

func (l *leaving) called() {
	if l.left--; l.left == 0 {
		l.leave()
	}
}

func (l *leaving) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	res, err := l.faults.Commit(ctx, batch)
	l.called()
	return res, err
}

func (l *leaving) Get(ctx context.Context, space string, keys ...string) ([]thole.Record, error) {
	recs, err := l.faults.Get(ctx, space, keys...)
	l.called()
	return recs, errors.Join(err, ctx.Err())
}

func TestWhatWasWrittenLivesOnWhenTheClientLeaves(t *testing.T) {
	for name, c := range map[string]thole.Commit{"alone": below("thing/1/000"), "with no room": full()} {
		for n := 1; n <= 6; n++ {
			synctest.Test(t, func(t *testing.T) {
				l := &leaving{faults: &faults{Backend: memstore.New()}}
				s := openOn(t, l, with(&thole.Options{Sweep: -1}, lasting(time.Hour)))
				sp := s.Space("project:p")
				old(t, sp)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				l.left, l.leave = n, cancel
				_, err := sp.Commit(ctx, c)
				if n == 6 && err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				written := get(t, sp, "thing/1/000").Exists()
				time.Sleep(2 * time.Minute)
				if err := s.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
				if (written || err == nil) && !get(t, sp, "thing/1/000").Exists() {
					t.Errorf("%s, left after call %d (%v): what was written 2 minutes ago is gone", name, n, err)
				}
			})
		}
	}
}

func TestAStaleFenceMovesNoEnd(t *testing.T) {
	for name, c := range map[string]thole.Commit{"alone": below("thing/1/x"), "with no room": full()} {
		synctest.Test(t, func(t *testing.T) {
			sp, _ := living(t)
			stale := acquired(t, sp, "a")
			acquired(t, sp, "a")
			was := old(t, sp)
			if name != "alone" {
				c.Writes = c.Writes[1:] // the fence needs a check
			}
			if _, err := sp.Under(stale).Commit(t.Context(), c); !errors.Is(err, thole.ErrFenced) {
				t.Errorf("%s: got %v, want ErrFenced", name, err)
			}
			if rec := get(t, sp, "thing/1"); rec.Version != was.Version {
				t.Errorf("%s: the end moved", name)
			}
		})
	}
}

// Other Stores that commit through this one have already moved the ends.
func TestApplyAndLoadMoveNoEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, _ := living(t)
		was := old(t, sp)
		c := below("thing/1/x")
		c.Space, c.Now = sp.Name(), time.Now()
		applied(t, sp.Store(), c)
		if rec := get(t, sp, "thing/1"); rec.Version != was.Version {
			t.Errorf("the end moved to %v", rec.Expires)
		}
	})
}

// An earlier version accepted numbers that no write may contain now.
func TestAnOwnerThatNoWriteMayHoldStopsNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, _ := living(t)
		now := time.Now().UTC()
		at := thole.Position{Epoch: "0001abcdef01", Seq: 1}
		err := sp.Store().Load(t.Context(), sp.Name(), journal.Chunk{
			Head:    thole.Head{Oldest: at, Last: at, Epochs: []journal.Epoch{{Name: at.Epoch, First: 1, Last: 1}}},
			Records: []thole.Record{{Key: "thing/1", Value: json.RawMessage("1e999999"), Version: at, Updated: now, Expires: now.Add(time.Minute)}},
			Done:    true,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sp.Commit(t.Context(), below("thing/1/x")); err != nil {
			t.Error(err)
		}
	})
}

func TestManyWritersAtOnceMoveTheEndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp, _ := living(t)
		old(t, sp)
		versions := make(map[thole.Position]bool)
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				time.Sleep(time.Duration(rand.IntN(3)))
				if _, err := sp.Commit(t.Context(), below(fmt.Sprintf("thing/1/%d", i))); err != nil {
					t.Error(err)
				}
				rec, err := sp.Get(t.Context(), "thing/1")
				if err != nil || !moved(rec) {
					t.Errorf("after a write: %+v, %v", rec, err)
				}
				mu.Lock()
				defer mu.Unlock()
				versions[rec.Version] = true
			})
		}
		all.Wait()
		if len(versions) != 1 || left(t, sp, "thing/1/") != 64 {
			t.Errorf("got %d versions of the owner and %d records, want 1 and 64", len(versions), left(t, sp, "thing/1/"))
		}
	})
}

// A commit that checks the record's version and has no room for the move is not refused
// because of the move.
func TestAFullCommitThatDemandsTheOwnersVersionIsTaken(t *testing.T) {
	const n = thole.MaxCommitItems - 1
	t.Run("commit", func(t *testing.T) {
		sp, _ := living(t)
		c := thole.Commit{Checks: []thole.Check{{Key: "thing/1", At: old(t, sp).Version}}}
		for i := range n {
			c.Writes = append(c.Writes, thole.Write{Key: fmt.Sprintf("thing/1/%d", i), Value: json.RawMessage("1")})
		}
		if _, err := sp.Commit(t.Context(), c); err != nil {
			t.Error(err)
		}
		if !moved(get(t, sp, "thing/1")) {
			t.Error("its end was not moved")
		}
		if _, err := sp.Commit(t.Context(), c); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("the version of before: got %v", err)
		}
		putFor(t, sp, "thing/1", 2, time.Minute, true)
		if _, err := sp.Commit(t.Context(), c); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("a version of before, and an end to move: got %v", err)
		}
	})
	t.Run("update", func(t *testing.T) {
		sp, _ := living(t)
		at, ran := old(t, sp).Version, 0
		_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
			ran++
			if _, err := tx.Require("thing/1", thole.Condition{At: at}); err != nil {
				return err
			}
			for i := range n {
				tx.Put(fmt.Sprintf("thing/1/%d", i), 1, nil)
			}
			return nil
		})
		if err != nil || ran != 1 {
			t.Errorf("got %v, ran %d times", err, ran)
		}
	})
}

func TestWhatASweepWritesKeepsNothingAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		note := ending("note", func(ctx context.Context, sp *thole.Space, rec thole.Record) error {
			_, err := sp.Update(ctx, func(tx *thole.Tx) error {
				tx.Delete(rec.Key)
				tx.Put("thing/1/told", 1, nil)
				tx.Emit("thing/1", "note.due", nil)
				return nil
			})
			return err
		})
		s := openOn(t, memstore.New(), with(&thole.Options{Concepts: []*thole.Concept{note}}, lasting(time.Hour)))
		sp := s.Space("project:p")
		putFor(t, sp, "thing/1", 1, time.Hour, true)
		was := get(t, sp, "thing/1")
		putFor(t, sp, "note/1", 1, 50*time.Minute, true)
		time.Sleep(59 * time.Minute)
		if told := get(t, sp, "thing/1/told"); !told.Exists() {
			t.Fatal("the note has not ended")
		}
		if now := get(t, sp, "thing/1"); now.Version != was.Version || !now.Expires.Equal(was.Expires) {
			t.Errorf("the thing: got %+v, want %+v", now, was)
		}
		time.Sleep(2 * time.Minute)
		if now := get(t, sp, "thing/1"); now.Exists() {
			t.Errorf("the thing lives on: %+v", now)
		}
	})
}
