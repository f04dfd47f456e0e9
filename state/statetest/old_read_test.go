package statetest_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

// reading collects what is read from a store, in order.
type reading struct {
	ctx   context.Context
	lines strings.Builder
	err   error
}

// add records what was read under a name, as a line of JSON.
func (r *reading) add(name string, v any, err error) {
	if err != nil {
		v = err.Error()
	}
	text, err := json.Marshal(v)
	r.err = errors.Join(r.err, err)
	fmt.Fprintf(&r.lines, "%s\t%s\n", name, text)
}

// readStore reads everything through the concepts, as text in which the n-th id is n,
// so that stores with the same content give the same text.
func readStore(ctx context.Context, s *thole.Store, notes map[string]string) (string, error) {
	r := &reading{ctx: ctx}
	names, err := s.Spaces(ctx, thole.SpacesQuery{})
	r.add("spaces", names, err)
	for _, name := range names {
		r.journal(s.Space(name))
	}
	tokens, err := auth.List(ctx, s, "", 0)
	r.add("tokens", tokens, err)
	holder, err := auth.NewTokens(s).Authenticate(ctx, notes["token"])
	r.add("token", holder, err)

	sp := s.Space("project:golden")
	threads := thread.In(sp)
	list, err := threads.List(ctx, &thread.ListOptions{Children: true})
	r.add("threads", list, err)
	for _, entry := range list.Items {
		r.thread(sp, entry.ID)
	}
	for _, name := range []string{"gone_run", "gone_queued", "unburied_run"} {
		if id := notes[name]; id != "" {
			v, err := run.In(sp, nil).Get(ctx, id)
			r.add(name, v, err)
		}
	}
	r.documents(sp)
	r.rest(sp, notes)
	return numbered(r.lines.String()), r.err
}

// journal adds the space's events, and its records without their values.
func (r *reading) journal(sp *thole.Space) {
	head, err := sp.Head(r.ctx)
	r.add("head", head, err)
	for e, err := range sp.Events(r.ctx, thole.ReadQuery{After: before(head.Oldest)}) {
		r.add(fmt.Sprint("event ", e.Position.Seq, " ", e.Stream, " ", e.Type), map[string]any{
			"time": e.Time, "actor": e.Actor, "cause": e.Cause, "subject": e.Subject, "refs": e.Refs, "schema": e.Schema, "data": e.Data,
		}, err)
	}
	for rec, err := range sp.Records(r.ctx, "") {
		r.add("record "+rec.Key, map[string]any{"version": rec.Version, "updated": rec.Updated, "expires": rec.Expires, "schema": rec.Schema, "notify": rec.Notify}, err)
	}
}

func before(p thole.Position) thole.Position {
	p.Seq--
	return p
}

func (r *reading) thread(sp *thole.Space, id string) {
	ctx, threads, runs := r.ctx, thread.In(sp), run.In(sp, nil)
	th, err := threads.Get(ctx, id)
	r.add("thread", th, err)
	for q := (&thread.Query{Last: 40}); ; {
		page, err := threads.Turns(ctx, id, q)
		r.add("turns", page, err)
		if q.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	for q := (&thread.Query{Last: 33}); ; {
		page, err := threads.Messages(ctx, id, q)
		r.add("messages", page, err)
		if q.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	list, err := runs.List(ctx, id, nil)
	r.add("runs", list, err)
	queue, err := runs.Queue(ctx, id)
	r.add("queue", queue, err)
	todos, err := todo.In(sp).List(ctx, id)
	r.add("todos", todos, err)
	if len(todos.Todos) > 0 {
		r.add("todos as text", todo.Format(todos.Todos), nil)
	}
	state, err := document.Under(sp, thread.Key(id), thread.Key(id)).Get(ctx, "state", nil)
	r.add("state", state, err)
}

func (r *reading) documents(sp *thole.Space) {
	docs := document.In(sp)
	list, err := docs.List(r.ctx, nil)
	r.add("documents", list, err)
	for _, info := range list.Items {
		doc, err := docs.Get(r.ctx, info.Name, nil)
		r.add("document", doc, err)
	}
	for e, err := range sp.Events(r.ctx, thole.ReadQuery{Types: []string{document.TypeChanged}}) {
		if err != nil || !strings.HasPrefix(e.Stream, "document/") || e.Stream == "document/counter" && e.Position.Seq%7 != 0 {
			continue
		}
		var c struct{ Name string }
		err := e.As(&c)
		if err == nil {
			var past document.Document
			past, err = docs.Get(r.ctx, c.Name, &document.GetOptions{At: e.Position})
			r.add("document at", past, err)
		}
	}
}

func (r *reading) rest(sp *thole.Space, notes map[string]string) {
	ctx := r.ctx
	for _, ns := range []string{"a", "a/b", "once", "rest"} {
		values, err := kv.In(sp).List(ctx, ns, nil)
		r.add("kv "+ns, values, err)
	}
	locks, err := lock.In(sp).List(ctx, nil)
	r.add("locks", locks, err)
	decisions, err := decision.In(sp).List(ctx, nil)
	r.add("decisions", decisions, err)
	open, err := decision.In(sp).List(ctx, &decision.ListOptions{Incomplete: true})
	r.add("open decisions", open, err)
	index, err := decision.In(sp).Index(ctx, nil)
	r.add("index", index, err)
	files, err := file.In(sp).List(ctx, nil)
	r.add("files", files, err)
	for _, f := range files.Items {
		history, err := file.In(sp).History(ctx, f.Path, nil)
		r.add("history", history, err)
	}
	for _, hash := range []string{notes["blob"], file.Hash([]byte("old")), file.Hash([]byte("new")), file.Hash([]byte("a picture"))} {
		sum := sha256.New()
		blob, err := sp.OpenBlob(ctx, hash)
		if err == nil {
			_, err = io.Copy(sum, blob)
			err = errors.Join(err, blob.Close())
		}
		r.add("blob "+hash, hex.EncodeToString(sum.Sum(nil)) == hash, err)
	}
}

// These differ between stores of the same content.
var individual = regexp.MustCompile(`_[0-9a-f]{32}|\b0001[0-9a-f]{8}\b`)

func numbered(text string) string {
	seen := make(map[string]string)
	return individual.ReplaceAllStringFunc(text, func(id string) string {
		if _, ok := seen[id]; !ok {
			seen[id] = fmt.Sprintf("%c%d", "e_"[len(id)/33], len(seen)+1)
		}
		return seen[id]
	})
}
