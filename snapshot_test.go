package thole_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

func TestAnErasureDeletesTheSnapshotsOfItsStreamsAndNoOthers(t *testing.T) {
	of := map[string]string{
		"app/s": thole.SnapshotKey("app/s", "1"), "app/s/below": thole.SnapshotKey("app/s/below", "1"),
		"app": thole.SnapshotKey("app", "1"), "app/other": thole.SnapshotKey("app/other", "1"),
	}
	for name, purge := range map[string]func(first thole.Position) thole.Purge{
		"the stream":        func(thole.Position) thole.Purge { return thole.Purge{Streams: []string{"app/s"}} },
		"one of its events": func(at thole.Position) thole.Purge { return thole.Purge{Events: []thole.Position{at}} },
	} {
		t.Run(name, func(t *testing.T) {
			sp := open(t, nil).Space("project:shop")
			first, _ := withCanary(t, sp, 2)
			for _, key := range of {
				putFor(t, sp, key, canary, time.Hour, false)
			}
			if err := sp.Purge(t.Context(), purge(first)); err != nil {
				t.Fatal(err)
			}
			for stream, key := range of {
				rec, err := sp.Get(t.Context(), key)
				if err != nil || rec.Exists() == (stream == "app/s") {
					t.Errorf("the snapshot of %s: is there: %v, %v", stream, rec.Exists(), err)
				}
			}
			if n := left(t, sp, "erased/"); n != 0 {
				t.Errorf("%d notes of erasures are left", n)
			}
		})
	}
}

// dies is the backend of a process that is killed during its purge: before the purge
// was applied, or right after.
type dies struct {
	*memstore.Store
	before bool
	dead   *bool
}

func (d dies) Purge(ctx context.Context, space string, p thole.Purge) (err error) {
	if !d.before {
		err = d.Store.Purge(ctx, space, p)
	}
	*d.dead = true
	return errors.Join(err, errors.New("killed"))
}

func (d dies) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	if *d.dead {
		return nil, errors.New("killed")
	}
	return d.Store.Commit(ctx, batch)
}

func (dies) Close() error { return nil }

// A process is killed during its purge. Another one neither returns erased data from
// memory nor leaves the rest behind.
func TestAnErasureIsFinishedThoughItsProcessWasKilled(t *testing.T) {
	for name, before := range map[string]bool{"before the purge": true, "after the purge": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				backend, dead := memstore.New(), false
				ours := openOn(t, dies{backend, before, &dead}, &thole.Options{Sweep: -1}).Space("project:shop")
				theirs := openOn(t, kept{backend}, nil).Space("project:shop")
				first, last := withCanary(t, ours, 3)
				putFor(t, ours, thole.SnapshotKey("app/s", "1"), canary, time.Hour, false)
				kept := thole.Projection[[]string]{Name: "texts",
					Apply: func(s []string, e thole.Event) ([]string, error) { return append(slices.Clip(s), string(e.Data)), nil },
					Size:  func([]string) int { return 100 }}
				read := func() []string {
					all, err := kept.At(t.Context(), theirs, "app/s", last, func(ctx context.Context) (all []string, err error) {
						for e, err := range theirs.Events(ctx, thole.ReadQuery{Stream: "app/s"}) {
							if err != nil {
								return nil, err
							}
							all = append(all, string(e.Data))
						}
						return all, nil
					})
					if err != nil {
						t.Fatal(err)
					}
					return all
				}
				if got := read(); !slices.Contains(got, `"`+canary+`"`) {
					t.Fatalf("before: got %q", got)
				}
				if err := ours.Purge(t.Context(), thole.Purge{Events: []thole.Position{first}}); err == nil {
					t.Fatal("the purge did not fail")
				}
				if got := read(); slices.Contains(got, `"`+canary+`"`) != before {
					t.Errorf("at once: got %q", got)
				}
				time.Sleep(15 * time.Second) // another process sweeps
				synctest.Wait()
				if got := read(); slices.Contains(got, `"`+canary+`"`) {
					t.Errorf("after a sweep: got %q", got)
				}
				if n := left(t, theirs, "snap/") + left(t, theirs, "erased/"); n != 0 {
					t.Errorf("after a sweep %d snapshots and notes are left", n)
				}
			})
		})
	}
}
