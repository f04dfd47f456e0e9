package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

// listing is one list: how items are added, and how it is read.
type listing struct {
	name string
	max  int                                                   // the most items that it may have; 0: any number
	add  func(from, to int) error                              // makes the items from…to−1
	page func(cursor string, limit int) ([]any, string, error) // through the library; nil: only over HTTP
	path string                                                // over HTTP; "": only through the library
	size func(items int) int                                   // how many of the items are listed; nil: all
}

// items returns a page's items and cursor in the form that listing wants.
func items[T any](all []T, next string, err error) ([]any, string, error) {
	out := make([]any, len(all))
	for i, v := range all {
		out[i] = v
	}
	return out, next, err
}

func TestEveryListGivesEachItemOnceHoweverItIsPaged(t *testing.T) {
	effort.SlowUnderRace(t)
	stores := map[string]func() (journal.Backend, error){
		"mem": func() (journal.Backend, error) { return memstore.New(), nil },
	}
	if effort.Soak() {
		stores["sqlite"] = func() (journal.Backend, error) {
			return sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), nil)
		}
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			b, err := open()
			if err != nil {
				t.Fatal(err)
			}
			store, err := thole.Open(t.Context(), b, &thole.Options{Concepts: rest.Concepts(), Sweep: -1})
			if err != nil {
				t.Fatal(err)
			}
			s := serveStore(t, store, nil)
			for _, l := range listings(t, s) {
				t.Run(l.name, func(t *testing.T) { l.check(t, s) })
			}
		})
	}
}

// check pages through the list at several lengths with several limits.
func (l *listing) check(t *testing.T, s *server) {
	made := 0
	for _, n := range []int{999, 1000, 1001, 2003} {
		if l.max > 0 {
			n = min(n, l.max)
		}
		if n > made {
			if err := l.add(made, n); err != nil {
				t.Fatalf("make the items %d to %d: %v", made, n, err)
			}
			made = n
		}
		want := n
		if l.size != nil {
			want = l.size(n)
		}
		limits := []int{0, 999, 1000, 1001, 5000}
		if n > 1001 {
			limits = []int{300, 1000}
		}
		for _, limit := range limits {
			if l.page != nil {
				l.pages(t, "library", want, limit, l.page)
			}
			if l.path != "" && limit > thole.MaxPage {
				s.refuse(400, "invalid", "GET", l.path+sep(l.path)+"limit="+strconv.Itoa(limit), nil)
			} else if l.path != "" {
				l.pages(t, "HTTP", want, limit, func(cursor string, limit int) ([]any, string, error) { return l.fetch(s, cursor, limit) })
			}
		}
		if n == l.max {
			return
		}
	}
}

func sep(path string) string {
	if strings.Contains(path, "?") {
		return "&"
	}
	return "?"
}

// fetch reads a page over HTTP.
func (l *listing) fetch(s *server, cursor string, limit int) ([]any, string, error) {
	u, err := url.Parse(l.path)
	if err != nil {
		return nil, "", err
	}
	q := u.Query()
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	u.RawQuery = q.Encode()
	var p struct {
		Items []json.RawMessage `json:"items"`
		Next  string            `json:"next_cursor"`
	}
	s.want(200, &p, "GET", u.String(), nil)
	return items(p.Items, p.Next, nil)
}

// pages reads the whole list with a limit and compares the result with what exists.
func (l *listing) pages(t *testing.T, how string, want, limit int, page func(string, int) ([]any, string, error)) {
	t.Helper()
	seen := make(map[string]bool)
	cursor := ""
	for pages := 0; ; pages++ {
		all, next, err := page(cursor, limit)
		if err != nil {
			t.Fatalf("%s, %d items, limit %d, page %d: %v", how, want, limit, pages+1, err)
		}
		if limit > 0 && len(all) > limit {
			t.Errorf("%s, %d items, limit %d: got a page of %d", how, want, limit, len(all))
		}
		for _, item := range all {
			id, err := json.Marshal(item)
			if err != nil {
				t.Fatal(err)
			}
			if seen[string(id)] {
				t.Fatalf("%s, %d items, limit %d: got twice: %.100s", how, want, limit, id)
			}
			seen[string(id)] = true
		}
		if next == "" {
			break
		}
		if next == cursor || pages > 2*want {
			t.Fatalf("%s, %d items, limit %d: the cursor %q leads nowhere", how, want, limit, next)
		}
		cursor = next
	}
	if len(seen) != want {
		t.Errorf("%s, limit %d: got %d of %d items", how, limit, len(seen), want)
	}
}

// each calls do for from…to−1, many at once, so that commits share a batch.
func each(from, to int, do func(i int) error) error {
	const workers = 32
	done := make(chan error, workers)
	for w := range workers {
		go func() {
			var err error
			for i := from + w; i < to && err == nil; i += workers {
				err = do(i)
			}
			done <- err
		}()
	}
	var errs []error
	for range workers {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}

// inOrder calls do for from…to−1, several in each commit.
func inOrder(ctx context.Context, sp *thole.Space, from, to int, do func(tx *thole.Tx, i int) error) error {
	for from < to {
		end := min(to, from+50)
		_, err := sp.Update(ctx, func(tx *thole.Tx) error {
			for i := from; i < end; i++ {
				if err := do(tx, i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		from = end
	}
	return nil
}

func listings(t *testing.T, s *server) []listing {
	ctx := t.Context()
	space := func(name string) (*thole.Space, string) {
		return s.store.Space("project:" + name).As("user:local"), "/v1/spaces/project:" + name
	}
	newThread := func(sp *thole.Space) string {
		th, err := thread.In(sp).Create(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		return th.ID
	}
	hello := thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock("hello")}}
	var all []listing

	{
		sp, _ := space("records")
		all = append(all, listing{name: "records", add: func(from, to int) error {
			return inOrder(ctx, sp, from, to, func(tx *thole.Tx, i int) error { tx.Put(fmt.Sprintf("app/%d", i), i, nil); return nil })
		}, page: func(cursor string, limit int) ([]any, string, error) {
			recs, err := sp.List(ctx, thole.ListQuery{Prefix: "app/", After: cursor, Limit: limit})
			next := ""
			if len(recs) == journal.PageLimit(limit) {
				next = recs[len(recs)-1].Key
			}
			return items(recs, next, err)
		}})
	}
	{ // every other one has expired and is not swept
		sp, _ := space("expired")
		all = append(all, listing{name: "records, half of them expired", add: func(from, to int) error {
			return inOrder(ctx, sp, from, to, func(tx *thole.Tx, i int) error {
				o := &thole.WriteOptions{}
				if i%2 == 1 {
					o.Expires = tx.Now()
				}
				tx.Put(fmt.Sprintf("app/%d", i), i, o)
				return nil
			})
		}, size: func(n int) int { return (n + 1) / 2 }, page: func(cursor string, limit int) ([]any, string, error) {
			recs, err := sp.List(ctx, thole.ListQuery{Prefix: "app/", After: cursor, Limit: limit})
			next := ""
			if len(recs) == journal.PageLimit(limit) {
				next = recs[len(recs)-1].Key
			}
			return items(recs, next, err)
		}})
	}
	{
		sp, path := space("events")
		for _, order := range []string{"asc", "desc"} {
			all = append(all, listing{name: "events " + order, path: path + "/events?types=app.*&order=" + order, add: func(from, to int) error {
				if order == "desc" {
					return nil // they exist already
				}
				return inOrder(ctx, sp, from, to, func(tx *thole.Tx, i int) error { tx.Emit("app/x", "app.x", i); return nil })
			}, size: func(n int) int {
				if order == "desc" {
					return 2003
				}
				return n
			}})
		}
	}
	for _, filter := range []string{"", "assistant=a", "children=true"} {
		sp, path := space("threads" + strconv.Itoa(len(filter)))
		parent := newThread(sp)
		all = append(all, listing{name: "threads " + filter, path: path + "/threads?" + filter, add: func(from, to int) error {
			return inOrder(ctx, sp, from, to, func(tx *thole.Tx, i int) error {
				o := thread.CreateOptions{}
				switch i % 3 {
				case 1:
					o.Assistant = "a"
				case 2:
					o.Parent = parent
				}
				th, err := thread.Create(tx, o)
				if err == nil && i%7 == 0 { // records below it
					tx.Put(thread.Key(th.ID)+"/todos", []string{}, nil)
				}
				return err
			})
		}, size: func(n int) int {
			switch filter {
			case "assistant=a":
				return (n + 1) / 3
			case "children=true":
				return n + 1
			}
			return 1 + (n+2)/3 + (n+1)/3
		}, page: func(cursor string, limit int) ([]any, string, error) {
			o := &thread.ListOptions{Cursor: cursor, Limit: limit, Children: filter == "children=true"}
			if filter == "assistant=a" {
				o.Assistant = "a"
			}
			p, err := thread.In(sp).List(ctx, o)
			return items(p.Items, p.Next, err)
		}})
	}
	for _, what := range []string{"messages", "turns", "events"} {
		sp, path := space("turns" + what)
		id := newThread(sp)
		l := listing{name: what + " of a thread", path: path + "/threads/" + id + "/" + what, add: func(from, to int) error {
			return inOrder(ctx, sp, from, to, func(tx *thole.Tx, i int) error { _, err := thread.Append(tx, id, hello); return err })
		}, page: historyPage(ctx, sp, id, what)}
		if what == "events" {
			l.size, l.page = func(n int) int { return n + 1 }, nil
		}
		all = append(all, l)
	}
	{
		sp, path := space("oneturn")
		id := newThread(sp)
		rs := run.In(sp, nil)
		if _, err := rs.Start(ctx, id, run.Request{Prompt: "go"}); err != nil {
			t.Fatal(err)
		}
		h, err := rs.Claim(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, listing{name: "messages of one turn", path: path + "/threads/" + id + "/messages", add: func(from, to int) error {
			err := inOrder(ctx, sp, from, to, func(tx *thole.Tx, i int) error { _, err := thread.Append(tx, id, hello); return err })
			if err == nil && from == 0 { // the run's own message counts too
				err = h.Text(ctx, "hello")
			}
			return err
		}, size: func(n int) int { return n + 2 }, page: historyPage(ctx, sp, id, "messages")})
	}
	{
		sp, path := space("runs")
		id := newThread(sp)
		rs := run.In(sp, nil)
		all = append(all, listing{name: "runs", path: path + "/threads/" + id + "/runs", max: 1001, add: func(from, to int) error {
			for range to - from {
				r, err := rs.Start(ctx, id, run.Request{Prompt: "go"})
				if err == nil {
					_, err = rs.Cancel(ctx, r.ID, run.ByUser)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}, page: func(cursor string, limit int) ([]any, string, error) {
			p, err := rs.List(ctx, id, &run.ListOptions{Cursor: cursor, Limit: limit})
			return items(p.Items, p.Next, err)
		}})
		waiting := newThread(sp)
		all = append(all, listing{name: "queue", path: path + "/threads/" + waiting + "/queue", max: 250, add: func(from, to int) error {
			for range to - from {
				if _, err := rs.Start(ctx, waiting, run.Request{Prompt: "go"}); err != nil {
					return err
				}
			}
			return nil
		}}) // the library returns the whole list
	}
	for _, prefix := range []string{"", "k", "k/"} {
		sp, path := space("values" + strconv.Itoa(len(prefix)))
		values, query := kv.In(sp), ""
		if prefix != "" {
			query = "?prefix=" + url.QueryEscape(prefix)
		}
		all = append(all, listing{name: "values prefix=" + prefix, path: path + "/kv/n" + query, add: func(from, to int) error {
			return each(from, to, func(i int) error {
				key := fmt.Sprintf("k/%d", i)
				if i == 0 {
					key = prefix + "k"[len(prefix)%2:]
				}
				_, err := values.Set(ctx, "n", key, i, nil)
				return err
			})
		}, page: func(cursor string, limit int) ([]any, string, error) {
			p, err := values.List(ctx, "n", &kv.ListOptions{Prefix: prefix, After: cursor, Limit: limit})
			return items(p.Items, p.Next, err)
		}})
	}
	{
		sp, path := space("documents")
		docs := document.In(sp)
		all = append(all, listing{name: "documents", path: path + "/documents", add: func(from, to int) error {
			return each(from, to, func(i int) error { _, err := docs.Put(ctx, fmt.Sprintf("a/%d", i), i, nil); return err })
		}, page: func(cursor string, limit int) ([]any, string, error) {
			p, err := docs.List(ctx, &document.ListOptions{After: cursor, Limit: limit})
			return items(p.Items, p.Next, err)
		}})
	}
	{
		sp, path := space("files")
		files := file.In(sp)
		all = append(all, listing{name: "files", path: path + "/files", add: func(from, to int) error {
			return each(from, to, func(i int) error {
				_, err := files.Found(ctx, fmt.Sprintf("a/%d", i), file.Hash(nil))
				return err
			})
		}, page: func(cursor string, limit int) ([]any, string, error) {
			p, err := files.List(ctx, &file.ListOptions{After: cursor, Limit: limit})
			return items(p.Items, p.Next, err)
		}}, listing{name: "history of a file", path: path + "/file-history/h", max: 1001, add: func(from, to int) error {
			for i := from; i < to; i++ {
				if _, err := files.Found(ctx, "h", file.Hash([]byte(strconv.Itoa(i)))); err != nil {
					return err
				}
			}
			return nil
		}, page: func(cursor string, limit int) ([]any, string, error) {
			h, err := files.History(ctx, "h", &file.HistoryOptions{Cursor: cursor, Limit: limit})
			return items(h.Items, h.Next, err)
		}})
	}
	{
		sp, path := space("todos")
		id := newThread(sp)
		all = append(all, listing{name: "todos", path: path + "/threads/" + id + "/todos", add: func(from, to int) error {
			list := make([]todo.Todo, to)
			for i := range list {
				list[i] = todo.Todo{ID: strconv.Itoa(i), Content: "x"}
			}
			_, err := todo.In(sp).Set(ctx, id, list, nil)
			return err
		}})
	}
	{
		sp, path := space("locks")
		locks := lock.In(sp)
		all = append(all, listing{name: "locks", path: path + "/locks", add: func(from, to int) error {
			return each(from, to, func(i int) error {
				_, err := locks.Acquire(ctx, fmt.Sprintf("a/%d", i), &lock.Options{TTL: time.Hour})
				return err
			})
		}, page: func(cursor string, limit int) ([]any, string, error) {
			p, err := locks.List(ctx, &lock.ListOptions{After: cursor, Limit: limit})
			return items(p.Items, p.Next, err)
		}})
	}
	sp, path := space("decisions")
	decisions := decision.In(sp)
	of := newThread(sp)
	for _, filter := range []string{"", "incomplete=true", "thread=" + of} {
		o := decision.ListOptions{Incomplete: filter == "incomplete=true"}
		l := listing{name: "decisions " + filter, path: path + "/decisions?" + filter, page: func(cursor string, limit int) ([]any, string, error) {
			o := o
			o.After, o.Limit = cursor, limit
			p, err := decisions.List(ctx, &o)
			return items(p.Items, p.Next, err)
		}}
		if filter == "" {
			l.add = func(from, to int) error {
				return each(from, to, func(i int) error {
					p := decision.Plan{Action: "x"}
					if i%2 == 1 {
						p.Thread = of
					}
					_, err := decisions.Plan(ctx, p)
					return err
				})
			}
		} else { // of those that still exist
			l.max, l.add = 2003, func(int, int) error { return nil }
			l.size = func(int) int { return 2003 }
			if o.Incomplete == false {
				o.Thread, l.size = of, func(int) int { return 1001 }
			}
		}
		all = append(all, l)
	}
	tokens := listing{name: "tokens", add: func(from, to int) error {
		return each(from, to, func(i int) error {
			_, _, err := auth.Create(ctx, s.store, auth.Token{Grants: []auth.Grant{{Space: "*", Access: auth.Read}}})
			return err
		})
	}, page: func(cursor string, limit int) ([]any, string, error) {
		list, err := auth.List(ctx, s.store, cursor, limit)
		next := ""
		if len(list) == journal.PageLimit(limit) {
			next = list[len(list)-1].ID
		}
		return items(list, next, err)
	}}
	before := 0
	spaces := listing{name: "spaces", path: "/v1/spaces", add: func(from, to int) error {
		if from == 0 {
			for names, err := s.store.Spaces(ctx, thole.SpacesQuery{}); len(names) > before; {
				if before = len(names); err != nil {
					return err
				}
			}
		}
		return each(from, to, func(i int) error {
			_, err := s.store.Space(fmt.Sprintf("user:%d", i)).Commit(ctx, thole.Commit{Events: []thole.Event{{Stream: "app/x", Type: "app.x"}}})
			return err
		})
	}, size: func(n int) int { return n + before }, page: func(cursor string, limit int) ([]any, string, error) {
		names, err := s.store.Spaces(ctx, thole.SpacesQuery{After: cursor, Limit: limit})
		next := ""
		if len(names) == journal.PageLimit(limit) {
			next = names[len(names)-1]
		}
		return items(names, next, err)
	}}
	return append(all, tokens, spaces)
}

// historyPage reads messages or turns, newest page first.
func historyPage(ctx context.Context, sp *thole.Space, id, what string) func(string, int) ([]any, string, error) {
	return func(cursor string, limit int) ([]any, string, error) {
		q := &thread.Query{Cursor: cursor, Last: limit}
		if what == "turns" {
			p, err := thread.In(sp).Turns(ctx, id, q)
			return items(p.Items, p.Next, err)
		}
		p, err := thread.In(sp).Messages(ctx, id, q)
		return items(p.Items, p.Next, err)
	}
}
