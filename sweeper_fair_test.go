package thole_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// slow is a backend whose commits take as long as those of a disk.
type slow struct {
	*memstore.Store
	wait func()
}

func (s slow) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	s.wait()
	return s.Store.Commit(ctx, batch)
}

// In one space many records expire at the same moment. Records in other spaces that
// expire then, or during the backlog, still end in time.
func TestABacklogInOneSpaceDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openOn(t, slow{memstore.New(), func() { time.Sleep(5 * time.Millisecond) }}, nil)
		backlog, other := s.Space("project:a"), s.Space("user:victim")
		const many = 8000 // 40 s and more of commits
		due := time.Now().Add(10 * time.Second)
		for i := range many / 200 {
			c := thole.Commit{}
			for j := range 200 {
				c.Writes = append(c.Writes, thole.Write{Key: fmt.Sprintf("thing/%d", i*200+j), Value: []byte("1"), Expires: due, Notify: true})
			}
			if _, err := backlog.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		for i, after := range []time.Duration{0, 5 * time.Second, 10 * time.Second} {
			key := fmt.Sprintf("thing/%d", i)
			putFor(t, other, key, 1, time.Until(due)+after, true)
		}
		time.Sleep(time.Until(due))
		for i := range 3 {
			time.Sleep(3 * time.Second)
			if got := types(t, other, fmt.Sprintf("thing/%d", i)); got != "thing.expired" {
				t.Errorf("what was due %v after the backlog: 3 s later got %q, want thing.expired", time.Duration(i)*5*time.Second, got)
			}
			time.Sleep(2 * time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		n := 0
		for _, err := range backlog.Events(t.Context(), thole.ReadQuery{Types: []string{"thing.expired"}}) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != many {
			t.Errorf("%d of %d records of the backlog ended", n, many)
		}
	})
}

// listing is a backend that counts the pages of expired records that it was asked for.
type listing struct {
	*memstore.Store
	parts atomic.Int32
}

func (l *listing) List(ctx context.Context, space string, q thole.ListQuery) ([]thole.Record, error) {
	if !q.DueBy.IsZero() {
		l.parts.Add(1)
	}
	return l.Store.List(ctx, space, q)
}

func TestARunOfExpiredRecordsOfAnotherProgramCostsTwoParts(t *testing.T) {
	clock := &wall{t: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	b := &listing{Store: memstore.New()}
	s := openOn(t, b, &thole.Options{Sweep: -1, Now: clock.now})
	sp := s.Space("project:shop")
	for i := range 1000 {
		putFor(t, sp, fmt.Sprintf("foreign/%04d", i), 1, time.Minute, false)
	}
	putFor(t, sp, "thing/a", 1, time.Minute, false)
	clock.add(time.Hour)
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := left(t, sp, "thing/"); n != 0 {
		t.Error("what comes behind the run has not ended")
	}
	if n := b.parts.Load(); n > 2 {
		t.Errorf("looked at %d parts, want 2", n)
	}
}
