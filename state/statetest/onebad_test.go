package statetest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/all"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

// conceptList is a concept's list of three items, and the middle one's record.
type conceptList struct {
	concept string
	key     string
	names   []string
	page    func(after string, limit int) (names []string, next string, err error)
	get     func() error // reads the middle one
}

// conceptLists makes three items of each concept that has lists.
func conceptLists(t *testing.T, sp *thole.Space) []conceptList {
	ctx := t.Context()
	threads, runs, decisions := thread.In(sp), run.In(sp, nil), decision.In(sp)
	th := got(threads.Create(ctx, nil))(t).ID
	names := []string{"a", "b", "c"}
	ids := map[string][]string{"thread": {th}}
	for i, n := range names {
		if i > 0 {
			ids["thread"] = append(ids["thread"], got(threads.Create(ctx, nil))(t).ID)
		}
		ids["run"] = append(ids["run"], got(runs.Start(ctx, th, run.Request{Prompt: n}))(t).ID)
		ids["decision"] = append(ids["decision"], got(decisions.Plan(ctx, decision.Plan{Action: n}))(t).ID)
		got(document.In(sp).Put(ctx, n, 1, nil))(t)
		got(kv.In(sp).Set(ctx, "n", n, 1, nil))(t)
		got(file.In(sp).Found(ctx, n, file.Hash([]byte(n))))(t)
		got(lock.In(sp).Acquire(ctx, n, nil))(t)
	}
	return []conceptList{
		{"thread", thread.Key(ids["thread"][1]), ids["thread"], func(after string, limit int) ([]string, string, error) {
			return named(func(e thread.Entry) string { return e.ID })(threads.List(ctx, &thread.ListOptions{Cursor: after, Limit: limit}))
		}, func() error { return errOf(threads.Get(ctx, ids["thread"][1])) }},
		{"run", "run/" + ids["run"][1], ids["run"], func(after string, limit int) ([]string, string, error) {
			return named(func(r *run.Run) string { return r.ID })(runs.List(ctx, th, &run.ListOptions{Cursor: after, Limit: limit}))
		}, func() error { return errOf(runs.Get(ctx, ids["run"][1])) }},
		{"decision", "decision/" + ids["decision"][1], ids["decision"], func(after string, limit int) ([]string, string, error) {
			return named(func(d decision.Decision) string { return d.ID })(decisions.List(ctx, &decision.ListOptions{After: after, Limit: limit}))
		}, func() error { return errOf(decisions.Get(ctx, ids["decision"][1])) }},
		{"file", "file/b", names, func(after string, limit int) ([]string, string, error) {
			return named(func(f file.File) string { return f.Path })(file.In(sp).List(ctx, &file.ListOptions{After: after, Limit: limit}))
		}, func() error { return errOf(file.In(sp).Get(ctx, "b")) }},
		// These lists do not read the values.
		{"document", "document/%zz", names, func(after string, limit int) ([]string, string, error) {
			return named(func(d document.Info) string { return d.Name })(document.In(sp).List(ctx, &document.ListOptions{After: after, Limit: limit}))
		}, nil},
		{"kv", "kv/n/%zz", names, func(after string, limit int) ([]string, string, error) {
			return named(func(e kv.Entry) string { return e.Key })(kv.In(sp).List(ctx, "n", &kv.ListOptions{After: after, Limit: limit}))
		}, nil},
		{"lock", "lock/%zz/owner", names, func(after string, limit int) ([]string, string, error) {
			return named(func(l lock.Info) string { return l.Name })(lock.In(sp).List(ctx, &lock.ListOptions{After: after, Limit: limit}))
		}, nil},
	}
}

func named[T any](name func(T) string) func(thole.PageOf[T], error) ([]string, string, error) {
	return func(p thole.PageOf[T], err error) (names []string, next string, _ error) {
		for _, item := range p.Items {
			names = append(names, name(item))
		}
		return names, p.Next, err
	}
}

func errOf[T any](_ T, err error) error { return err }

// damage writes what fits no type under key.
func damage(t *testing.T, sp *thole.Space, key string) {
	t.Helper()
	if _, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
		tx.Put(key, json.RawMessage(`"bad"`), nil)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestOneRecordThatCannotBeReadHidesNoOtherInAnyList(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		var log bytes.Buffer
		st := e.Second(&thole.Options{Concepts: all.Concepts(), Now: e.Clock.Now, Sweep: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		sp := st.Space("project:shop")
		for _, l := range conceptLists(t, sp) {
			want := l.names
			damage(t, sp, l.key)
			if l.get != nil {
				want = []string{l.names[0], l.names[2]}
				if err := l.get(); !errors.Is(err, thole.ErrCorrupt) {
					t.Errorf("%s: a read of it: %v, want ErrCorrupt", l.concept, err)
				}
			}
			for _, limit := range []int{1, 2, 3, 0} {
				var found []string
				for after, pages := "", 0; ; pages++ {
					names, next, err := l.page(after, limit)
					if err != nil || limit > 0 && len(names) > limit || pages > 4 {
						t.Fatalf("%s: page %d of %d after %q: %q, %q, %v", l.concept, pages, limit, after, names, next, err)
					}
					found = append(found, names...)
					if after = next; next == "" {
						break
					}
				}
				if !slices.Equal(found, want) {
					t.Errorf("%s by %d: %q, want %q", l.concept, limit, found, want)
				}
			}
			if n := strings.Count(log.String(), "key="+l.key+" "); n != 1 {
				t.Errorf("%s: %d warnings name it, want 1:\n%s", l.concept, n, log.String())
			}
		}
	})
}

// unreadable is a backend whose reads fail with an error once there is one.
type unreadable struct {
	journal.Backend
	get, list *error
}

func (u unreadable) Get(ctx context.Context, space string, keys ...string) ([]thole.Record, error) {
	if *u.get != nil {
		return nil, *u.get
	}
	return u.Backend.Get(ctx, space, keys...)
}

func (u unreadable) List(ctx context.Context, space string, q thole.ListQuery) ([]thole.Record, error) {
	if *u.list != nil {
		return nil, *u.list
	}
	return u.Backend.List(ctx, space, q)
}

// A space that cannot be read is not one whose records cannot be read.
func TestAListFailsIfTheBackendDoes(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		var get, list error
		e.Wrap = func(b journal.Backend) journal.Backend { return unreadable{b, &get, &list} }
		e.Reopen()
		made := conceptLists(t, e.Space("project:shop"))
		for _, want := range []error{thole.ErrUnavailable, thole.ErrCorrupt} {
			for _, l := range made {
				get, list = nil, want
				if names, _, err := l.page("", 0); !errors.Is(err, want) {
					t.Errorf("%s: %q, %v, want %v", l.concept, names, err, want)
				}
				get, list = want, nil
				if names, _, err := l.page("", 0); l.concept == "run" && !errors.Is(err, want) {
					t.Errorf("%s, which reads an index first: %q, %v, want %v", l.concept, names, err, want)
				}
			}
		}
		get, list = nil, nil
	})
}

// Keys whose names are escaped in another way than the library does: an edit by hand made
// them. A page that ended with such a name would be followed by itself.
func TestAListEndsBehindANameThatIsEscapedOddly(t *testing.T) {
	statetest.Each(t, func(t *testing.T, e *statetest.Env) {
		ctx, sp := t.Context(), e.Space("project:shop")
		for _, key := range []string{"document/a(b", "document/z", "kv/n/a(b", "kv/n/z", "lock/a(b/owner", "lock/z/owner"} {
			_, err := sp.Update(ctx, func(tx *thole.Tx) error { tx.Put(key, map[string]string{"holder": "x"}, nil); return nil })
			must(t, "put "+key, err)
		}
		for what, page := range map[string]func(after string) (names []string, next string, err error){
			"documents": func(after string) (names []string, next string, err error) {
				p, err := document.In(sp).List(ctx, &document.ListOptions{After: after, Limit: 1})
				for _, d := range p.Items {
					names = append(names, d.Name)
				}
				return names, p.Next, err
			},
			"values": func(after string) (names []string, next string, err error) {
				p, err := kv.In(sp).List(ctx, "n", &kv.ListOptions{After: after, Limit: 1})
				for _, v := range p.Items {
					names = append(names, v.Key)
				}
				return names, p.Next, err
			},
			"locks": func(after string) (names []string, next string, err error) {
				p, err := lock.In(sp).List(ctx, &lock.ListOptions{After: after, Limit: 1})
				for _, l := range p.Items {
					names = append(names, l.Name)
				}
				return names, p.Next, err
			},
		} {
			var all []string
			for after, pages := "", 1; ; pages++ {
				names, next, err := page(after)
				must(t, what, err)
				if all = append(all, names...); next == "" || pages == 10 {
					break
				}
				after = next
			}
			if !slices.Equal(all, []string{"z"}) {
				t.Errorf("%s: got %q, want z alone", what, all)
			}
		}
	})
}
