package thread_test

import (
	"errors"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

func errOf[T any](_ T, err error) error { return err }

func TestAStaleVersionIsToldBeforeAnythingElseIsJudged(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ts, ctx := thread.In(e.Space("project:shop")), t.Context()
		th, err := ts.Create(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		title := "new"
		if _, err := ts.Patch(ctx, th.ID, thread.Patch{Title: &title}, nil); err != nil {
			t.Fatal(err)
		}
		old := th.Version
		ends := map[string]error{
			"a patch of nothing": errOf(ts.Patch(ctx, th.ID, thread.Patch{}, &thread.PatchOptions{IfMatch: old})),
			"a bad visibility":   errOf(ts.Patch(ctx, th.ID, thread.Patch{Visibility: new(string)}, &thread.PatchOptions{IfMatch: old})),
			"destroy":            ts.Destroy(ctx, th.ID, &thread.DestroyOptions{IfMatch: old}),
		}
		for what, err := range ends {
			var conflict *thole.ConflictError
			if !errors.As(err, &conflict) || conflict.Actual.IsZero() {
				t.Errorf("%s: got %v, want a *ConflictError with the version", what, err)
			}
		}
	})
}

func TestRequireChecksThatTheThreadExists(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		sp, ctx := e.Space("project:shop"), t.Context()
		th, err := thread.In(sp).Create(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		require := func(id string, at thole.Position) error {
			_, err := sp.Update(ctx, func(tx *thole.Tx) error { return thread.Require(tx, id, at) })
			return err
		}
		absent := thole.NewID("thrd")
		for _, test := range []struct {
			id   string
			at   thole.Position
			want error
		}{
			{th.ID, thole.Position{}, nil},
			{th.ID, th.Version, nil},
			{absent, thole.Position{}, thole.ErrNotFound},
			{absent, th.Version, thole.ErrNotFound},
			{"x", thole.Position{}, thole.ErrInvalid},
		} {
			if err := require(test.id, test.at); !errors.Is(err, test.want) {
				t.Errorf("thread %s at %s: got %v, want %v", test.id, test.at, err, test.want)
			}
		}
	})
}
