package router_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/router"
	"github.com/thole-dev/thole/journal"
)

var errDead = fmt.Errorf("%w: dead", journal.ErrUnavailable)

// mortal is a backend that can be dead: it refuses every call, or blocks it until its
// context ends, a commit for an hour.
type mortal struct {
	journal.Backend
	dead, hangs atomic.Bool
}

func (m *mortal) alive(ctx context.Context) error {
	if m.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if m.dead.Load() {
		return errDead
	}
	return nil
}

func (m *mortal) Commit(ctx context.Context, batch []journal.Commit) ([]journal.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	if err := m.alive(ctx); err != nil {
		return nil, err
	}
	return m.Backend.Commit(ctx, batch)
}

func (m *mortal) Get(ctx context.Context, space string, keys ...string) ([]journal.Record, error) {
	if err := m.alive(ctx); err != nil {
		return nil, err
	}
	return m.Backend.Get(ctx, space, keys...)
}

func (m *mortal) List(ctx context.Context, space string, q journal.ListQuery) ([]journal.Record, error) {
	if err := m.alive(ctx); err != nil {
		return nil, err
	}
	return m.Backend.List(ctx, space, q)
}

func (m *mortal) Read(ctx context.Context, space string, q journal.ReadQuery) (journal.Page, error) {
	if err := m.alive(ctx); err != nil {
		return journal.Page{}, err
	}
	return m.Backend.Read(ctx, space, q)
}

func (m *mortal) Heads(ctx context.Context, spaces ...string) ([]journal.Head, error) {
	if err := m.alive(ctx); err != nil {
		return nil, err
	}
	return m.Backend.Heads(ctx, spaces...)
}

func (m *mortal) Spaces(ctx context.Context, q journal.SpacesQuery) ([]string, error) {
	if err := m.alive(ctx); err != nil {
		return nil, err
	}
	return m.Backend.Spaces(ctx, q)
}

// One of several stores is dead, refusing or hanging: that of users, or that of global.
// The other one is opened, listed, watched and swept as usual, and the dead one is used
// again once it answers.
func TestOneDeadStoreStopsNothingInTheOthers(t *testing.T) {
	for _, global := range []bool{false, true} {
		for _, hangs := range []bool{false, true} {
			t.Run(fmt.Sprintf("global %t hangs %t", global, hangs), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sick, healthy := &mortal{Backend: memstore.New()}, memstore.New()
					rules := []router.Rule{{Pattern: "project:*", Backend: healthy}, {Pattern: "user:*", Backend: sick}}
					if global {
						slices.Reverse(rules) // global is in the first rule's store
					}
					there, err := router.New(router.Rule{Pattern: "*", Backend: healthy})
					if err != nil {
						t.Fatal(err)
					}
					for i, b := range []journal.Backend{healthy, sick} {
						if _, err := b.Commit(t.Context(), commitTo([]string{"project:a", "user:1"}[i])); err != nil {
							t.Fatal(err)
						}
					}
					kill := func(dead bool) {
						sick.dead.Store(dead)
						sick.hangs.Store(dead && hangs)
					}
					kill(true)
					b, err := router.New(rules...)
					if err != nil {
						t.Fatal(err)
					}
					s, err := thole.Open(t.Context(), b, &thole.Options{Logger: slog.New(slog.DiscardHandler)})
					if err != nil {
						t.Fatalf("open: %v", err)
					}
					defer s.Close()

					// The list has what exists, and an error names what is
					// missing.
					names, err := s.Spaces(t.Context(), journal.SpacesQuery{})
					var away *journal.UnreachableError
					if !errors.As(err, &away) || !slices.Equal(away.Patterns(), []string{"user:*"}) || !errors.Is(err, journal.ErrUnavailable) {
						t.Errorf("spaces: got %v, want an UnreachableError for user:*", err)
					}
					if !slices.Contains(names, "project:a") {
						t.Errorf("spaces: got %q, want project:a among them", names)
					}
					heads, err := b.Heads(t.Context(), "user:1", "project:a")
					if !errors.As(err, &away) || len(heads) != 2 || heads[0].Space != "" || heads[1].Last.Seq == 0 {
						t.Errorf("heads: got %v, %v; want that of project:a", heads, err)
					}

					// Commits of another process are seen, also while the dead
					// store's spaces are watched.
					watched, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					if w, err := s.Space("user:1").Watch(watched, nil); err == nil {
						defer w.Close()
					}
					w, err := s.Space("project:a").Watch(t.Context(), nil)
					if err != nil {
						t.Fatal(err)
					}
					defer w.Close()
					for range 5 {
						if _, err := there.Commit(t.Context(), commitTo("project:a")); err != nil {
							t.Fatal(err)
						}
						start := time.Now()
						if _, err := w.Next(t.Context()); err != nil {
							t.Fatal(err)
						}
						if took := time.Since(start); took > 1100*time.Millisecond {
							t.Errorf("another process's event was received after %v, want a second", took)
						}
					}

					// Records that expire there are swept soon.
					sp := s.Space("project:a")
					for i := range 5 {
						key := fmt.Sprintf("app/%d", i)
						if _, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
							tx.Put(key, 1, &thole.WriteOptions{Expires: tx.Now().Add(time.Second), Notify: true})
							return nil
						}); err != nil {
							t.Fatal(err)
						}
						time.Sleep(20 * time.Second)
						page, err := sp.Read(t.Context(), journal.ReadQuery{Stream: key})
						if err != nil || len(page.Events) != 1 {
							t.Errorf("%s: got %v, %v; want one event of its expiry", key, page.Events, err)
						}
					}

					kill(false)
					time.Sleep(time.Hour + 20*time.Second) // the commit that hung, and the pause
					names, err = s.Spaces(t.Context(), journal.SpacesQuery{})
					if err != nil || !slices.Contains(names, "user:1") || !slices.Contains(names, "project:a") {
						t.Errorf("when it is back: got %q, %v", names, err)
					}
					if _, err := s.Space("user:1").Commit(t.Context(), journal.Commit{Events: []journal.Event{{Stream: "s", Type: "a.b"}}}); err != nil {
						t.Errorf("a commit when it is back: %v", err)
					}
				})
			})
		}
	}
}

// Messages to a dead store, even many, wait; records that expire beside them do not,
// and the messages are delivered when the store is back.
func TestMessagesToADeadStoreHoldNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick := &mortal{Backend: memstore.New()}
		b, err := router.New(router.Rule{Pattern: "project:*", Backend: memstore.New()}, router.Rule{Pattern: "user:*", Backend: sick})
		if err != nil {
			t.Fatal(err)
		}
		s, err := thole.Open(t.Context(), b, &thole.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sick.dead.Store(true)
		sp := s.Space("project:a")
		const n = 50
		for range n {
			if _, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
				tx.Send("user:1", journal.Commit{Events: []journal.Event{{Stream: "app/s", Type: "a.b"}}}, nil)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Minute)
		if _, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
			tx.Put("app/x", 1, &thole.WriteOptions{Expires: tx.Now().Add(time.Second), Notify: true})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if page, err := sp.Read(t.Context(), journal.ReadQuery{Stream: "app/x"}); err != nil || len(page.Events) != 1 {
			t.Errorf("beside them: got %v, %v; want the event of an expiry", page.Events, err)
		}
		sick.dead.Store(false)
		time.Sleep(2 * time.Minute)
		if page, err := s.Space("user:1").Read(t.Context(), journal.ReadQuery{}); err != nil || len(page.Events) != n {
			t.Errorf("when it is back: %d messages arrived, %v; want %d", len(page.Events), err, n)
		}
	})
}

// A store that cannot be opened is opened later, and then its hints are used.
func TestAStoreThatCannotBeOpenedIsOpenedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		late := router.Later(errDead, func(context.Context) (journal.Backend, error) {
			if tries++; tries < 4 {
				return nil, errDead
			}
			return memstore.New(), nil
		})
		b := route(t, router.Rule{Pattern: "project:*", Backend: memstore.New()}, router.Rule{Pattern: "user:*", Backend: late})
		if _, err := b.Commit(t.Context(), commitTo("user:1")); !errors.Is(err, journal.ErrUnavailable) {
			t.Errorf("before it is open: got %v, want ErrUnavailable", err)
		}
		if _, err := b.Commit(t.Context(), commitTo("project:a")); err != nil {
			t.Errorf("the other one: %v", err)
		}
		hints := make(chan string, 1)
		ctx, cancel := context.WithCancel(t.Context())
		watch := make(chan error, 1)
		go func() { watch <- b.Capabilities().Hints(ctx, func(space string) { hints <- space }) }()
		if space := <-hints; space != "" {
			t.Errorf("when it opens: the hint %q, want one at everything", space)
		}
		if _, err := b.Commit(t.Context(), commitTo("user:1")); err != nil {
			t.Errorf("when it is open: %v", err)
		}
		cancel()
		if err := <-watch; err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if _, err := late.Spaces(t.Context(), journal.SpacesQuery{}); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("after Close: got %v, want ErrClosed", err)
		}
	})
}
