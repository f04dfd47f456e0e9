package thole_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// numb is a store that can stop answering: from then on each call waits until its
// caller gives up.
type numb struct {
	*memstore.Store
	dead  atomic.Bool
	asked atomic.Int32
}

func (n *numb) wait(ctx context.Context) error {
	n.asked.Add(1)
	if !n.dead.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (n *numb) Spaces(ctx context.Context, q thole.SpacesQuery) ([]string, error) {
	if err := n.wait(ctx); err != nil {
		return nil, err
	}
	return n.Store.Spaces(ctx, q)
}

func (n *numb) List(ctx context.Context, space string, q thole.ListQuery) ([]thole.Record, error) {
	if err := n.wait(ctx); err != nil {
		return nil, err
	}
	return n.Store.List(ctx, space, q)
}

func (n *numb) Get(ctx context.Context, space string, keys ...string) ([]thole.Record, error) {
	if err := n.wait(ctx); err != nil {
		return nil, err
	}
	return n.Store.Get(ctx, space, keys...)
}

// Close ends the sweeper at once, whatever it is doing, and the sweeper calls its store
// no more.
func TestCloseEndsTheSweeperWhateverItIsAt(t *testing.T) {
	for name, meet := range map[string]func(t *testing.T, n *numb, s *thole.Store, end *thole.Expirer){
		"waiting for the next sweep": func(*testing.T, *numb, *thole.Store, *thole.Expirer) {
			<-time.After(2500 * time.Millisecond) // time in the bubble
		},
		"ending a record": func(t *testing.T, _ *numb, s *thole.Store, end *thole.Expirer) {
			begun := make(chan struct{})
			*end = func(ctx context.Context, _ *thole.Space, _ thole.Record) error {
				close(begun)
				<-ctx.Done()
				return context.Cause(ctx)
			}
			putFor(t, s.Space("user:1"), "thing/1", 1, time.Second, false)
			<-begun
		},
		"ending the first of many records": func(t *testing.T, _ *numb, s *thole.Store, end *thole.Expirer) {
			sp := s.Space("user:1")
			begun, more := make(chan struct{}, 1000), 0
			*end = func(ctx context.Context, _ *thole.Space, _ thole.Record) error {
				if more++; more > 1 && ctx.Err() != nil {
					t.Error("it continues after it was told to end")
				}
				begun <- struct{}{}
				<-ctx.Done()
				return nil
			}
			for _, key := range []string{"thing/1", "thing/2", "thing/3"} {
				putFor(t, sp, key, 1, time.Second, false)
			}
			<-begun
		},
		"looking for what is due in a dead store": func(_ *testing.T, n *numb, _ *thole.Store, _ *thole.Expirer) {
			n.dead.Store(true)
			<-time.After(time.Minute) // time in the bubble
		},
		"listing a space of a store that dies": func(t *testing.T, n *numb, s *thole.Store, end *thole.Expirer) {
			*end = func(context.Context, *thole.Space, thole.Record) error {
				n.dead.Store(true) // the next call checks whether the record is gone
				return nil
			}
			putFor(t, s.Space("user:1"), "thing/1", 1, time.Second, false)
			<-time.After(time.Minute) // time in the bubble
			if !n.dead.Load() {
				t.Error("nothing was swept")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &numb{Store: memstore.New()}
				var end thole.Expirer
				things := ending("thing", func(ctx context.Context, sp *thole.Space, rec thole.Record) error { return end(ctx, sp, rec) })
				s, err := thole.Open(t.Context(), n, with(&thole.Options{Logger: slog.New(slog.DiscardHandler)}, things))
				if err != nil {
					t.Fatal(err)
				}
				meet(t, n, s, &end)
				synctest.Wait()
				closed := make(chan error, 1)
				began := time.Now()
				go func() { closed <- s.Close() }()
				select {
				case err := <-closed:
					if err != nil || time.Since(began) != 0 {
						t.Errorf("Close: %v after %v, want it at once", err, time.Since(began))
					}
				case <-time.After(time.Hour):
					t.Fatal("Close waits for ever")
				}
				asked := n.asked.Load()
				time.Sleep(time.Hour)
				if got := n.asked.Load(); got != asked {
					t.Errorf("the store was asked %d times after Close", got-asked)
				}
			})
		})
	}
}
