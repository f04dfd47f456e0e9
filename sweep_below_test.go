package thole_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// fill puts n records below app/cart.
func fill(t *testing.T, sp *thole.Space, n int) {
	t.Helper()
	for i := range n {
		putFor(t, sp, fmt.Sprintf("app/cart/%03d", i), i, time.Hour, false)
	}
}

// remain checks which records are left under prefix.
func remain(t *testing.T, sp *thole.Space, want ...string) {
	t.Helper()
	recs, err := sp.List(t.Context(), thole.ListQuery{Prefix: "app/"})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, r := range recs {
		got = append(got, r.Key)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A record ends, and another process creates it again while the records below it are
// being deleted.
func TestTheEndOfARecordTakesNothingOfTheNextOne(t *testing.T) {
	for name, below := range map[string]int{"few below": 3, "many below": 300} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, ours, theirs := hookedPair(t)
				putFor(t, ours, "app/cart", 1, time.Minute, true)
				fill(t, ours, below)
				time.Sleep(2 * time.Minute)
				n := 0
				h.listed = func(prefix string, _ []thole.Record) {
					if prefix != "app/cart/" {
						return
					}
					if n++; n == 2 { // the commit that ends the record is done
						putFor(t, theirs, "app/cart", "next", time.Hour, true)
						putFor(t, theirs, "app/cart/000", "next", time.Hour, false)
						putFor(t, theirs, "app/cart/299", "next", time.Hour, false)
					}
				}
				if err := ours.Store().Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
				remain(t, theirs, "app/cart", "app/cart/000", "app/cart/299")
			})
		})
	}
}

func TestWhatComesBelowWhileARecordEndsGoesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, ours, theirs := hookedPair(t)
		putFor(t, ours, "app/cart", 1, time.Minute, true)
		fill(t, ours, 3)
		time.Sleep(2 * time.Minute)
		once := false
		h.listed = func(prefix string, _ []thole.Record) {
			if prefix == "app/cart/" && !once {
				once = true
				if _, err := theirs.Commit(t.Context(), thole.Commit{Writes: []thole.Write{{Key: "app/cart/late", Value: json.RawMessage(`1`)}}}); err != nil {
					t.Error(err)
				}
			}
		}
		if err := ours.Store().Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		remain(t, theirs)
	})
}

// A space is removed and created again between the end of a record and the deletion of
// the rest below it.
func TestTheEndOfARecordTakesNothingOfANewSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, ours, theirs := hookedPair(t)
		putFor(t, ours, "app/cart", 1, time.Minute, true)
		fill(t, ours, 150)
		time.Sleep(2 * time.Minute)
		n := 0
		h.listed = func(prefix string, _ []thole.Record) {
			if prefix != "app/cart/" {
				return
			}
			if n++; n == 2 {
				if err := theirs.Purge(t.Context(), thole.Purge{All: true}); err != nil {
					t.Error(err)
				}
				putFor(t, theirs, "app/cart/130", "anew", time.Hour, false)
			}
		}
		if err := ours.Store().Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		remain(t, theirs, "app/cart/130")
	})
}

// A record below expired first, and no sweep came before the record above it ended.
func TestARecordEndsOverOneBelowThatExpiredFirst(t *testing.T) {
	for name, notify := range map[string]bool{"quietly": false, "with an event": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sp := open(t, &thole.Options{Sweep: -1}).Space("project:shop")
				putFor(t, sp, "app/cart", 1, time.Minute, true)
				putFor(t, sp, "app/cart/x", 1, 30*time.Second, notify)
				time.Sleep(2 * time.Minute)
				if err := sp.Store().Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n := left(t, sp, "app/"); n != 0 {
					t.Errorf("%d records are left", n)
				}
			})
		})
	}
}

func TestDeleteBelowTakesOnlyWhatItSaw(t *testing.T) {
	for name, c := range map[string]struct {
		key  string // written right after the first list
		want []string
	}{
		"the record is there again": {"app/cart", []string{"app/cart"}},
		"one below changed":         {"app/cart/001", nil},
		"another came":              {"app/cart/003", []string{"app/cart/003"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, ours, theirs := hookedPair(t)
			fill(t, ours, 3)
			once := false
			h.listed = func(prefix string, _ []thole.Record) {
				if prefix == "app/cart/" && !once {
					once = true
					putFor(t, theirs, c.key, "new", time.Hour, true)
				}
			}
			if err := ours.DeleteBelow(t.Context(), "app/cart"); err != nil {
				t.Fatal(err)
			}
			remain(t, theirs, c.want...)
		})
	}
}

// The process dies at its n-th commit; it is not known whether that commit was applied.
func TestWhatIsBelowARecordGoesThoughTheProcessDied(t *testing.T) {
	for n := 1; n <= 4; n++ {
		for _, at := range []when{before, after} {
			t.Run(fmt.Sprint(n, at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := &faults{Backend: memstore.New(), shared: true}
					ours := openOn(t, f, &thole.Options{Sweep: -1}).Space("project:shop")
					theirs := openOn(t, f.Backend, &thole.Options{Sweep: -1}).Space("project:shop")
					putFor(t, ours, "app/cart", 1, time.Minute, true)
					fill(t, ours, 300)
					time.Sleep(2 * time.Minute)
					f.breakFrom(n, at)
					if err := ours.Store().Sweep(t.Context()); err != nil {
						t.Log(err)
					}
					putFor(t, theirs, "app/cart/late", 1, time.Hour, false)
					for range 2 { // the first ends the record, the second deletes the rest
						time.Sleep(11 * time.Second)
						if err := theirs.Store().Sweep(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					want := []string{"app/cart/late"}
					if n == 1 && at == before { // it was written before the record ended
						want = nil
					}
					remain(t, theirs, want...)
					if n := left(t, theirs, "erased/"); n != 0 {
						t.Errorf("%d notes are left", n)
					}
					if got := types(t, theirs, "app/cart"); got != "app.expired" {
						t.Errorf("got %q, want one app.expired", got)
					}
				})
			})
		}
	}
}
