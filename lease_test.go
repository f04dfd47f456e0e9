package thole_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
)

func TestAFenceSurvivesItsTextForm(t *testing.T) {
	epoch := thole.NewEpoch(1)
	for _, f := range []thole.Fence{
		{Key: "run/run_1/owner", Token: thole.Position{Epoch: epoch, Seq: 7}},
		{Key: "lock/a@b@é/owner", Token: thole.Position{Epoch: epoch, Seq: thole.MaxSeq}},
		{Key: strings.Repeat("k", thole.MaxNameBytes), Token: thole.Position{Epoch: epoch}},
	} {
		text := f.String()
		got, err := thole.ParseFence(text)
		if err != nil || got != f {
			t.Errorf("ParseFence(%q): got %v, %v; want %v", text, got, err, f)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' || r == '"' }) {
			t.Errorf("%q is not safe in a header", text)
		}
	}
	if got := (thole.Fence{}).String(); got != "" {
		t.Errorf("zero fence: got %q, want empty", got)
	}
}

func FuzzParseFence(f *testing.F) {
	f.Add("")
	f.Add("***")
	f.Add("YQ")
	f.Add("YUA")
	f.Add("Y\nUA")
	f.Add(thole.Fence{Key: "a/owner", Token: thole.Position{Epoch: thole.NewEpoch(1), Seq: 3}}.String())
	f.Fuzz(func(t *testing.T, s string) {
		got, err := thole.ParseFence(s)
		switch {
		case err == nil && got.String() != s:
			t.Errorf("%q is printed as %q", s, got.String())
		case err != nil && !errors.Is(err, thole.ErrInvalid) && !errors.Is(err, thole.ErrTooLarge):
			t.Errorf("%q: got %v, want ErrInvalid", s, err)
		}
	})
}

func TestALeaseIsKeptUntilItIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		sp := s.Space("user:1")
		acquire := func(holder string) (thole.Fence, error) {
			res, err := sp.Update(t.Context(), func(tx *thole.Tx) error { return tx.Acquire("job", holder, time.Minute) })
			return thole.LeaseFence("job", res), err
		}
		lease := func() (l thole.Lease) {
			t.Helper()
			_, err := sp.Update(t.Context(), func(tx *thole.Tx) (err error) { l, err = tx.Lease("job"); return err })
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		if l := lease(); l.Holder != "" || l.Alive {
			t.Errorf("nobody's: got %+v", l)
		}
		fence, err := acquire("a")
		if err != nil {
			t.Fatal(err)
		}
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		kept := make(chan error)
		go func() { kept <- sp.KeepLease(ctx, fence, time.Minute) }()
		time.Sleep(time.Hour)
		if l := lease(); l != (thole.Lease{Holder: "a", Fence: fence, Alive: true}) {
			t.Errorf("kept for an hour: got %+v", l)
		}
		if _, err := acquire("b"); !errors.Is(err, thole.ErrConflict) {
			t.Errorf("taking it: got %v, want ErrConflict", err)
		}
		cancel(stop)
		if err := <-kept; !errors.Is(err, stop) {
			t.Errorf("KeepLease: got %v, want the context's cause", err)
		}
		time.Sleep(time.Hour)
		if l := lease(); l != (thole.Lease{Holder: "a", Fence: fence}) {
			t.Errorf("not kept: got %+v", l)
		}
		// Late is not lost, until another takes it.
		if err := sp.Renew(t.Context(), fence, time.Minute); err != nil {
			t.Errorf("late renewal: got %v", err)
		}
		time.Sleep(time.Hour)
		other, err := acquire("b")
		if err != nil {
			t.Fatal(err)
		}
		if err := sp.KeepLease(t.Context(), fence, time.Minute); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("replaced: got %v, want ErrFenced", err)
		}
		for _, f := range []thole.Fence{fence, {Key: "job/owner", Token: thole.Position{Epoch: thole.NewEpoch(1), Seq: 1}}} {
			if _, err := sp.Under(other).Under(f).Commit(t.Context(), event(1)); !errors.Is(err, thole.ErrFenced) {
				t.Errorf("under %v: got %v, want ErrFenced", f, err)
			}
		}
		_, err = sp.Under(other).Update(t.Context(), func(tx *thole.Tx) error { tx.Release("job"); return nil })
		if err != nil {
			t.Errorf("release: got %v", err)
		}
		if err := sp.Renew(t.Context(), other, time.Minute); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("released: got %v, want ErrFenced", err)
		}
		for _, err := range []error{
			sp.Renew(t.Context(), thole.Fence{Key: "job"}, time.Minute),
			sp.Renew(t.Context(), other, 0),
			sp.KeepLease(t.Context(), other, -1),
			func() error {
				_, err := sp.Update(t.Context(), func(tx *thole.Tx) error { return tx.Acquire("x", "a", 0) })
				return err
			}(),
		} {
			if !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("got %v, want ErrInvalid", err)
			}
		}
	})
}

func TestOneOfManyGetsALease(t *testing.T) {
	a, b := pair(t, nil, false)
	var got atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			sp := []*thole.Space{a, b}[i%2]
			_, err := sp.Update(t.Context(), func(tx *thole.Tx) error { return tx.Acquire("job", string(rune('a'+i)), time.Hour) })
			switch {
			case err == nil:
				got.Add(1)
			case !errors.Is(err, thole.ErrConflict):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := got.Load(); n != 1 {
		t.Errorf("%d hold the lease", n)
	}
}
