package thole_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// One process has the concept secret, the other does not. Whichever process sweeps,
// secret's expired records are left to the one that has it. The other is not kept busy
// by them and ends its own records.
func TestAProcessEndsNoRecordsOfConceptsThatItDoesNotHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memstore.New()
		f := &faults{Backend: backend, shared: true}
		ignorant := openOn(t, f, nil)
		sp := ignorant.Space("user:1")
		const many = 250 // more than two pages of expired records
		for i := range many {
			putFor(t, sp, fmt.Sprintf("secret/%03d", i), "the password", time.Second, true)
			putFor(t, sp, fmt.Sprintf("secret/%03d/beat", i), 1, time.Second, false)
		}
		for _, key := range []string{"a/1", "app/1", "thing/1", "z/1"} {
			putFor(t, sp, key, 1, 10*time.Second, true)
		}
		time.Sleep(8 * time.Second)
		synctest.Wait()
		before := len(f.commits())
		time.Sleep(time.Second)
		if n := len(f.commits()) - before; n != 0 {
			t.Errorf("what it does not know makes it commit %d times a second", n)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		for _, key := range []string{"app/1", "thing/1"} {
			if got := types(t, sp, key); got != strings.TrimSuffix(key, "/1")+".expired" {
				t.Errorf("%s, which it knows, behind what it does not know: got %q", key, got)
			}
		}
		before = len(f.commits())
		time.Sleep(time.Hour)
		if n := len(f.commits()) - before; n != 0 {
			t.Errorf("what it does not know makes it commit %d times in an hour", n)
		}
		if n := left(t, sp, "secret/"); n != 2*many {
			t.Errorf("%d of %d records are left that it does not know", n, 2*many)
		}
		for e, err := range sp.Events(t.Context(), thole.ReadQuery{}) {
			if err != nil || strings.Contains(string(e.Data), "password") {
				t.Fatalf("the journal discloses the value: %v, %v", e, err)
			}
		}
		if r, err := sp.Get(t.Context(), "secret/000"); err != nil || r.Exists() {
			t.Errorf("an expired record that it does not know: got %v, %v; want none", r, err)
		}
		_, err := sp.Commit(t.Context(), thole.Commit{Writes: []thole.Write{{Key: "secret/000", Value: json.RawMessage("2")}}})
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a write that touches it: got %v, want ErrUnsupported", err)
		}

		openOn(t, &faults{Backend: backend, shared: true}, with(nil, ending("secret", func(ctx context.Context, sp *thole.Space, rec thole.Record) error {
			_, err := sp.Commit(ctx, thole.Commit{
				Checks: []thole.Check{{Key: rec.Key, At: rec.Version}},
				Writes: []thole.Write{{Key: rec.Key}},
				Events: []thole.Event{{Stream: "secret", Type: "secret.expired"}},
			})
			return err
		})))
		time.Sleep(2*time.Second + time.Millisecond)
		synctest.Wait()
		if n := left(t, sp, "secret/"); n != 0 {
			t.Errorf("%d records are left, although a process sweeps that knows them", n)
		}
	})
}

// Records that cannot be ended, in one space and in spaces before others, delay nobody:
// each waits for its own next try.
func TestOneRecordThatFailsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := make(map[string]int)
		s := openOn(t, &faults{Backend: memstore.New()}, with(nil, ending("bad", func(ctx context.Context, sp *thole.Space, rec thole.Record) error {
			tries[rec.Key]++
			switch rec.Key {
			case "bad/conflict":
				return fmt.Errorf("as before: %w", thole.ErrConflict)
			case "bad/nothing":
				return nil
			}
			return errors.New("broken")
		})))
		poison, healthy := s.Space("project:a"), s.Space("project:b")
		for i := range 150 {
			putFor(t, poison, fmt.Sprintf("bad/%d", i), 1, time.Second, true)
		}
		putFor(t, poison, "bad/conflict", 1, time.Second, true)
		putFor(t, poison, "bad/nothing", 1, time.Second, true)
		time.Sleep(10 * time.Minute)
		for i := range 100 {
			sp := []*thole.Space{poison, healthy}[i%2]
			key := fmt.Sprintf("thing/%d", i)
			putFor(t, sp, key, 1, 500*time.Millisecond, true)
			time.Sleep(1600 * time.Millisecond) // a sweep runs each second
			if got := types(t, sp, key); got != "thing.expired" {
				t.Fatalf("%s in %s: got %q within 1.1 s, want thing.expired", key, sp.Name(), got)
			}
		}
		putFor(t, poison, "bad/new", 1, time.Second, true)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := tries["bad/new"]; n < 2 {
			t.Errorf("a record that failed just now was tried %d times in 5 s: it waits with the old ones", n)
		}
		for _, key := range []string{"bad/1", "bad/conflict", "bad/nothing"} {
			if n := tries[key]; n < 10 || n > 30 {
				t.Errorf("%s was tried %d times in about 13 minutes, want about once a minute", key, n)
			}
		}
	})
}

// When a record that an application keeps for a thread expires, the event goes to the
// thread's readers.
func TestTheEndOfWhatIsKeptForAThreadIsToldBelowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := open(t, nil).Space("user:1")
		kept := "app/thread/" + thole.NewID("thrd")
		for _, key := range []string{kept + "/draft", kept, "app/note/a/b", "app/x"} {
			putFor(t, sp, key, "text", time.Second, true)
		}
		time.Sleep(3 * time.Second)
		for stream, want := range map[string]string{
			kept: "app.expired", "app/thread": "", "app/note": "app.expired", "app/x": "app.expired",
		} {
			if got := types(t, sp, stream); !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("%s: got %q, want %q", stream, got, want)
			}
		}
	})
}

// A record app/thread would be above the records that applications keep for all
// threads.
func TestNothingEndsWhatIsKeptForThreadsButThoseThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memstore.New()
		s, err := thole.Open(t.Context(), backend, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sp := s.Space("user:1")
		kept := "app/thread/" + thole.NewID("thrd") + "/notes"
		putFor(t, sp, kept, "text", time.Hour, false)
		for _, key := range []string{"app/thread", "app/thread/", "app/thread/x", "app/thread/x/y"} {
			_, err := sp.Commit(t.Context(), thole.Commit{Writes: []thole.Write{{Key: key, Value: []byte("1")}}})
			if !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("write %s: got %v, want ErrInvalid", key, err)
			}
			_, err = sp.Commit(t.Context(), thole.Commit{Events: []thole.Event{{Stream: key, Type: "x.y"}}})
			if !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("event in %s: got %v, want ErrInvalid", key, err)
			}
		}
		// An earlier version allowed this write.
		for _, key := range []string{"app", "app/thread"} {
			if _, err := backend.Commit(t.Context(), []thole.Commit{{
				Space: sp.Name(), Now: s.Now(),
				Writes: []thole.Write{{Key: key, Value: []byte("1"), Expires: s.Now().Add(time.Second), Notify: true}},
			}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if rec, err := sp.Get(t.Context(), kept); err != nil || !rec.Exists() {
			t.Errorf("%s: got %v, %v; it is gone", kept, rec, err)
		}
		for _, key := range []string{"app", "app/thread"} {
			recs, err := backend.Get(t.Context(), sp.Name(), key)
			if err != nil || recs[0].Exists() {
				t.Errorf("%s: got %v, %v; want it gone", key, recs, err)
			}
		}
		page, err := sp.Read(t.Context(), thole.ReadQuery{})
		if err != nil || len(page.Events) != 0 {
			t.Errorf("got events %v, %v; want none", page.Events, err)
		}
	})
}
