package statetest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/all"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/statetest"
	"github.com/thole-dev/thole/state/thread"
)

// watched is a backend that counts its commits and remembers the keys that they write.
type watched struct {
	journal.Backend
	mu      sync.Mutex
	commits int
	keys    map[string]bool
}

func (b *watched) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.commits += len(batch)
	for _, c := range batch {
		for _, w := range c.Writes {
			b.keys[w.Key] = true
		}
	}
	return b.Backend.Commit(ctx, batch)
}

func (b *watched) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.commits
}

// specimens returns the records of a space in which every concept is at work, with one
// or two keys of every pattern that was written on the way.
func specimens(t *testing.T) (records []thole.Record, keys []string) {
	b := &watched{Backend: memstore.New(), keys: make(map[string]bool)}
	s, err := thole.Open(t.Context(), b, &thole.Options{Concepts: all.Concepts(), Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e := &statetest.Env{Store: s}
	sp := s.Space("project:shop")
	write(t, sp)
	ids := family(t, e, 0, 3)
	rs := run.In(sp, nil)
	last, err := rs.List(t.Context(), ids[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	above := last.Items[0]
	for range 2 {
		if _, err := rs.Start(t.Context(), "", run.Request{Prompt: "go", Agent: "sub", Parent: above.ID}); err != nil {
			t.Fatal(err)
		}
	}
	if err := rs.Signal(t.Context(), above.ID, "approved", json.RawMessage(`1`)); err != nil {
		t.Fatal(err)
	}
	waiting, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lock.In(sp).Acquire(waiting, "src/app.ts", &lock.Options{Owner: "agent:late", Wait: time.Hour}); err == nil {
		t.Fatal("a lock that another holds was acquired")
	}
	for rec, err := range sp.Records(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
	if _, err := rs.Cancel(t.Context(), above.ID, run.ByUser); err != nil {
		t.Fatal(err)
	}
	if err := thread.In(sp).Destroy(t.Context(), ids[0], nil); err != nil {
		t.Fatal(err)
	}
	b.keys["run/"+above.ID+"/cancelling"] = true // of a tree whose cancel takes several commits
	shapes := make(map[string]int)
	for _, key := range slices.Sorted(maps.Keys(b.keys)) {
		if shape := anID.ReplaceAllString(key, "$1"); shapes[shape] < 2 && !thole.Reserved(key) {
			shapes[shape]++
			keys = append(keys, key)
		}
	}
	return records, keys
}

// anID is an id in a key or value, with its kind.
var anID = regexp.MustCompile(`([a-z]+_)[0-9a-f]{32}`)

// nouns are the first parts of the keys that are declared.
func nouns(cs *thole.Concepts) (out []string) {
	for _, c := range cs.All() {
		for _, r := range c.Records {
			noun, _, _ := strings.Cut(r.Key, "/")
			out = append(out, noun)
		}
		for _, l := range c.Leases {
			noun, _, _ := strings.Cut(l.Base, "/")
			out = append(out, noun)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// forgeries returns keys for records of every declared kind: those that match its
// patterns, those that match other concepts' patterns, and those that name themselves.
func forgeries(kinds []string, keys []string) []string {
	out := make(map[string]bool)
	ids := make(map[string]bool)
	tails := make(map[string]bool)
	for _, key := range keys {
		for _, id := range anID.FindAllString(key, -1) {
			if strings.HasPrefix(id, "thrd_") && len(ids) < 6 || strings.HasPrefix(id, "run_") && len(ids) < 10 {
				ids[id] = true
			}
		}
		if parts := strings.SplitN(key, "/", 3); len(parts) == 3 {
			tails[anID.ReplaceAllString(parts[2], "x")] = true
		}
	}
	for _, key := range keys {
		out[key] = true
		for id := range ids {
			kind, _, _ := strings.Cut(id, "_")
			out[regexp.MustCompile(kind+`_[0-9a-f]{32}`).ReplaceAllString(key, id)] = true // all ids of a kind alike: it names itself
			if i := strings.LastIndexByte(key, '/'); strings.HasPrefix(key[i+1:], kind+"_") {
				out[key[:i+1]+id] = true // each below each
			}
		}
	}
	for _, kind := range kinds {
		for _, key := range []string{kind, kind + "/", kind + "//", kind + "/x", kind + "/x/y", kind + "/%zz", kind + "/%zz/queue"} {
			out[key] = true
		}
		for tail := range tails {
			out[kind+"/x/"+tail] = true
			for id := range ids {
				out[kind+"/"+id+"/"+tail] = true
			}
		}
		for id := range ids {
			out[kind+"/"+id] = true
		}
	}
	maps.DeleteFunc(out, func(key string, _ bool) bool { return thole.Reserved(key) || strings.HasPrefix(key, "app/thread") })
	return slices.Sorted(maps.Keys(out))
}

// values returns what a forged record may contain: garbage, nothing, what another
// concept writes, its own name.
func values(records []thole.Record) map[string]func(key string) json.RawMessage {
	of := func(v string) func(string) json.RawMessage {
		return func(string) json.RawMessage { return json.RawMessage(v) }
	}
	out := map[string]func(string) json.RawMessage{
		"null": of(`null`), "array": of(`[]`), "object": of(`{}`), "number": of(`1e300`), "text": of(`"x"`),
		"deep": of(strings.Repeat("[", journal.MaxDepth) + strings.Repeat("]", journal.MaxDepth)),
		"themselves": func(key string) json.RawMessage {
			id := anID.FindString(key)
			v := map[string]any{"children": 3, "status": "queued", "active": id, "queue": []string{id, id}, "others": []string{id}, "slot": "slot/" + id}
			for _, name := range []string{"id", "thread", "parent", "run", "resumed_from", "resumed_by", "owner", "lock", "active_run", "cause", "turn", "last_turn", "holder", "actor"} {
				v[name] = id
			}
			v["run_scope"] = "user"
			data, _ := json.Marshal(v)
			return data
		},
	}
	seen := make(map[string]bool)
	for _, r := range records { // one of each concept
		if kind, _, _ := strings.Cut(r.Key, "/"); !seen[kind] && !thole.Reserved(r.Key) && bytes.HasPrefix(r.Value, []byte("{")) {
			seen[kind] = true
			out["that of "+kind] = of(string(r.Value))
		}
	}
	return out
}

// Whatever records an admin of one space commits there, under the name of any concept
// and already expired, each ends or fails alone: the ttls of others are kept, and no
// call runs for ever.
func TestWhateverIsForgedTheExpiryOfOthersGoesOn(t *testing.T) {
	effort.SlowUnderRace(t)
	records, keys := specimens(t)
	quietly := slog.New(slog.DiscardHandler)
	t.Run("mem", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			wait := func(d time.Duration) { time.Sleep(d) }
			forgeAll(t, memstore.New(), &thole.Options{Logger: quietly}, wait, records, keys)
		})
	})
	t.Run("sqlite", func(t *testing.T) {
		b, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "thole.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		var ahead atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		wait := func(d time.Duration) { ahead.Add(int64(d)) }
		forgeAll(t, b, &thole.Options{Now: now, Sweep: -1, Logger: quietly}, wait, records, keys, "null", "themselves")
	})
}

// forgeAll fills spaces with forged records and moves the clock. Unless all tests run,
// it does so only for some of the values; none stands for all the others.
func forgeAll(t *testing.T, backend journal.Backend, opts *thole.Options, wait func(time.Duration), records []thole.Record, keys []string, some ...string) {
	b := &watched{Backend: backend, keys: make(map[string]bool)}
	opts.Concepts = all.Concepts()
	s, err := thole.Open(t.Context(), b, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pass := func(d time.Duration) {
		t.Helper()
		wait(d)
		if opts.Sweep < 0 {
			if err := s.Sweep(soon(t)); err != nil {
				t.Errorf("sweep: %.2000v", err)
			}
		}
	}
	declared := func(key string) bool { r, _ := s.Concepts().Record(key); return r != nil } // undeclared records are left alone
	records = slices.DeleteFunc(slices.Clone(records), func(r thole.Record) bool { return !declared(r.Key) })
	keys = slices.DeleteFunc(forgeries(nouns(s.Concepts()), keys), func(key string) bool { return !declared(key) })
	if len(keys) < 500 {
		t.Fatalf("only %d keys are forged", len(keys))
	}
	e := &statetest.Env{Store: s}
	spaces := 0
	made := values(records)
	for _, what := range slices.Sorted(maps.Keys(made)) {
		if len(some) > 0 && !slices.Contains(some, what) && !effort.Soak() {
			continue
		}
		for _, among := range []string{"alone", "among others", "among others that expire", "below what expires"} {
			value := made[what]
			ago := s.Now().Add(-time.Second)
			spaces++
			name := fmt.Sprintf("project:%03d", spaces)
			var writes []thole.Write
			for _, r := range records {
				switch among {
				case "among others":
					writes = append(writes, thole.Write{Key: r.Key, Value: r.Value})
				case "among others that expire", "below what expires":
					writes = append(writes, thole.Write{Key: r.Key, Value: r.Value, Expires: ago, Notify: true})
				}
			}
			for _, key := range keys {
				w := thole.Write{Key: key, Value: value(key), Expires: ago, Notify: true}
				if among == "below what expires" {
					w = thole.Write{Key: key, Value: w.Value}
				}
				if i := slices.IndexFunc(writes, func(x thole.Write) bool { return x.Key == key }); i >= 0 {
					if !strings.Contains(what, "that of") && among != "below what expires" {
						writes[i] = w
					}
				} else {
					writes = append(writes, w)
				}
			}
			forge(t, e, name, writes...)
			victim := s.Space(fmt.Sprintf("user:%03d", spaces))
			if _, err := kv.In(victim).Set(t.Context(), "n", "k", 1, &kv.SetOptions{TTL: time.Second}); err != nil {
				t.Fatal(err)
			}
			pass(15 * time.Second)
			if p, err := victim.Read(t.Context(), thole.ReadQuery{Types: []string{kv.TypeExpired}}); err != nil || len(p.Events) != 1 {
				t.Errorf("%s, %s: the ttl in another space was not kept: %v, %v", what, among, p.Events, err)
			}
			for _, d := range []time.Duration{time.Minute, time.Minute, 2 * time.Hour} { // a thread may live on for its ttl
				pass(d)
			}
			pass(time.Minute) // what ended with it
			before := b.count()
			pass(10 * time.Minute)
			if n := b.count() - before; n > 0 {
				t.Errorf("%s, %s: %d commits in ten minutes after", what, among, n)
			}
			recs, err := b.List(t.Context(), name, thole.ListQuery{DueBy: s.Now(), Limit: 20})
			if err != nil || len(recs) > 0 {
				t.Errorf("%s, %s: left, %v:", what, among, err)
			}
			for _, r := range recs {
				t.Errorf("\t%s %.200s", r.Key, r.Value)
			}
			if t.Failed() {
				t.FailNow()
			}
		}
	}
}
