package thole_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

func TestUpdatesThroughTwoStoresLoseNothing(t *testing.T) {
	a, b := pair(t, nil, false)
	const workers, each = 16, 40
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for range each {
				if err := increment(t.Context(), []*thole.Space{a, b}[i%2]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var c counter
	rec, err := a.Get(t.Context(), "app/count")
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.As(&c); err != nil || c.N != workers*each {
		t.Errorf("got %d, %v; want %d", c.N, err, workers*each)
	}
}

func TestATxSeesItsOwnWrites(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	first, err := sp.Update(t.Context(), func(tx *thole.Tx) error { tx.Put("app/old", "old", nil); return nil })
	if err != nil {
		t.Fatal(err)
	}
	expires := time.Now().Add(time.Hour)
	_, err = sp.Update(t.Context(), func(tx *thole.Tx) error {
		check := func(what, key, value string, version thole.Position) thole.Record {
			t.Helper()
			r, err := tx.Get(key)
			if err != nil || string(r.Value) != value || r.Exists() != (value != "") || r.Version != version {
				t.Errorf("%s: got %s at %v (exists: %v), %v; want %q at %v", what, r.Value, r.Version, r.Exists(), err, value, version)
			}
			return r
		}
		check("absent", "app/new", "", thole.Position{})
		tx.Put("app/new", 1, &thole.WriteOptions{Schema: 3, Expires: expires, Notify: true})
		if r := check("put", "app/new", "1", thole.Position{}); r.Schema != 3 || !r.Notify || !r.Expires.Equal(expires) || !r.Updated.Equal(tx.Now()) {
			t.Errorf("put with options: got %+v", r)
		}
		tx.Put("app/blind", 1, nil)
		check("put, not read", "app/blind", "1", thole.Position{})
		r := check("there", "app/old", `"old"`, first.Last)
		copy(r.Value, "XXXXX") // the caller owns what a Tx returns
		check("changed by the caller", "app/old", `"old"`, first.Last)
		tx.Put("app/old", "new", nil)
		check("replaced", "app/old", `"new"`, first.Last)
		tx.Delete("app/old")
		check("deleted", "app/old", "", thole.Position{})
		tx.Put("app/raw", json.RawMessage(nil), nil)
		check("null", "app/raw", "null", thole.Position{})
		var n int
		if ok, err := tx.Load("app/new", &n); !ok || err != nil || n != 1 {
			t.Errorf("Load: got %v, %v, %d", ok, err, n)
		}
		if rs, err := tx.List(thole.ListQuery{Prefix: "app/"}); err != nil || len(rs) != 1 {
			t.Errorf("List: got %v, %v; want what is committed", rs, err)
		}
		if tx.Context() == nil {
			t.Error("no context")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	recs, err := sp.GetAll(t.Context(), "app/old", "app/new")
	if err != nil || recs[0].Exists() || string(recs[1].Value) != "1" {
		t.Errorf("committed: got %v, %v", recs, err)
	}
}

func TestAConclusionFromAnOldCacheIsDrawnAgain(t *testing.T) {
	a, b := pair(t, nil, false)
	put := func(sp *thole.Space, v int) {
		t.Helper()
		if _, err := sp.Update(t.Context(), func(tx *thole.Tx) error { tx.Put("app/n", v, nil); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	put(a, 1) // now a has it in its cache
	put(b, 2)
	refused := errors.New("refused")
	_, err := a.Update(t.Context(), func(tx *thole.Tx) error {
		var n int
		if _, err := tx.Load("app/n", &n); err != nil {
			return err
		}
		if n == 1 {
			return refused
		}
		return nil
	})
	if err != nil {
		t.Errorf("error: got %v, want none: the record is 2", err)
	}
	put(a, 1)
	put(b, 2)
	var n int
	_, err = a.Update(t.Context(), func(tx *thole.Tx) error { _, err := tx.Load("app/n", &n); return err })
	if err != nil || n != 2 {
		t.Errorf("read only: got %d, %v; want 2", n, err)
	}
}

func TestAConclusionFromTwoTimesIsDrawnAgain(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	both := func(v int) {
		_, err := sp.Update(t.Context(), func(tx *thole.Tx) error { tx.Put("app/a", v, nil); tx.Put("app/b", v, nil); return nil })
		if err != nil {
			t.Error(err)
		}
	}
	both(1)
	torn := errors.New("torn")
	runs := 0
	_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
		var a, b int
		if _, err := tx.Load("app/a", &a); err != nil {
			return err
		}
		if runs++; runs == 1 {
			both(2)
		}
		if _, err := tx.Load("app/b", &b); err != nil {
			return err
		}
		if a != b {
			return torn
		}
		return nil
	})
	if err != nil || runs != 2 {
		t.Errorf("got %v after %d runs, want a second run", err, runs)
	}
}

func TestReadersBesideManyWritersSeeOneTime(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	var writers, readers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 8 {
		writers.Go(func() {
			for ctx.Err() == nil {
				_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
					var n int
					_, err := tx.Load("app/a", &n)
					tx.Put("app/a", n+1, nil)
					tx.Put("app/b", n+1, nil)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 4 {
		readers.Go(func() {
			for range 100 {
				var a, b int
				_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
					a, b = 0, 0
					if _, err := tx.Load("app/a", &a); err != nil {
						return err
					}
					_, err := tx.Load("app/b", &b)
					return err
				})
				if err != nil || a != b {
					t.Errorf("got %d and %d, %v; want the same", a, b, err)
				}
			}
		})
	}
	readers.Wait()
	stop()
	writers.Wait()
}

func TestOnlyExplicitChecksAreReported(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	res, err := sp.Commit(t.Context(), event(1))
	if err != nil {
		t.Fatal(err)
	}
	want := thole.Check{Stream: "app/x"}
	_, err = sp.Update(t.Context(), func(tx *thole.Tx) error {
		tx.Check(want)
		tx.Emit("app/x", "x.y", 2).Refs = []string{"run_1"}
		return nil
	})
	var conflict *thole.ConflictError
	if !errors.As(err, &conflict) || conflict.Check != want || conflict.Actual != res.Last {
		t.Errorf("got %v, want the conflict with %v", err, res.Last)
	}
	if !strings.Contains(conflict.Error(), "absent") || !errors.Is(err, thole.ErrConflict) {
		t.Errorf("got %q", conflict.Error())
	}
}

func TestAnUncertainWriteIsReadAgain(t *testing.T) {
	f := &faults{Backend: memstore.New()}
	sp := openOn(t, f, &thole.Options{Sweep: -1}).Space("user:1")
	if err := increment(t.Context(), sp); err != nil {
		t.Fatal(err)
	}
	f.breakCommit(1, after)
	if err := increment(t.Context(), sp); !errors.Is(err, errFault) {
		t.Fatalf("got %v, want the fault", err)
	}
	runs := 0
	_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
		runs++
		var c counter
		_, err := tx.Load("app/count", &c)
		if c.N != 2 {
			t.Errorf("got %d, want the write that happened", c.N)
		}
		tx.Emit("app/x", "x.y", c)
		return err
	})
	if err != nil || runs != 1 {
		t.Errorf("got %v after %d runs, want one", err, runs)
	}
}

func TestAnUpdateEndsWithItsContext(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := sp.Update(ctx, func(tx *thole.Tx) error {
		if _, err := tx.Get("app/n"); err != nil {
			return err
		}
		// Another writer is always faster.
		if err := increment(t.Context(), sp); err != nil {
			return err
		}
		_, err := sp.Commit(t.Context(), thole.Commit{Writes: []thole.Write{{Key: "app/n", Value: json.RawMessage("1")}}})
		tx.Put("app/n", 2, nil)
		cancel(stop)
		return err
	})
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want the context's cause", err)
	}
}

func TestNamesAndSizesAreChecked(t *testing.T) {
	s := open(t, nil)
	ok := s.Space("user:1")
	long := strings.Repeat("k", thole.MaxNameBytes+1)
	big := json.RawMessage(`"` + strings.Repeat("x", thole.MaxValueBytes) + `"`)
	deep := json.RawMessage(strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000))
	ev := func(e thole.Event) thole.Commit { return thole.Commit{Events: []thole.Event{e}} }
	wr := func(ws ...thole.Write) thole.Commit { return thole.Commit{Writes: ws} }
	one := json.RawMessage("1")
	var many, heavy []thole.Write
	for i := range thole.MaxCommitItems + 1 {
		many = append(many, thole.Write{Key: strings.Repeat("a", i+1)[:min(i+1, 256)], Value: one})
		if i < 9 {
			heavy = append(heavy, thole.Write{Key: string(rune('a' + i)), Value: big[:len(big)/2+1]})
			heavy[i].Value = json.RawMessage(`"` + strings.Repeat("x", thole.MaxValueBytes-2) + `"`)
		}
	}
	for name, c := range map[string]struct {
		sp   *thole.Space
		c    thole.Commit
		want error
	}{
		"fits":            {ok, ev(thole.Event{Stream: "a", Type: "a.b", Data: big[:0]}), nil},
		"weird names":     {ok, wr(thole.Write{Key: "ключ/🚣/ ..", Value: one}), nil},
		"largest key":     {ok, wr(thole.Write{Key: long[1:], Value: one}), nil},
		"empty":           {ok, thole.Commit{}, thole.ErrInvalid},
		"space":           {s.Space("User:1"), ev(thole.Event{Stream: "a", Type: "b"}), thole.ErrInvalid},
		"space with /":    {s.Space("user:a/b"), ev(thole.Event{Stream: "a", Type: "b"}), thole.ErrInvalid},
		"space long":      {s.Space("user:" + long), ev(thole.Event{Stream: "a", Type: "b"}), thole.ErrTooLarge},
		"actor":           {ok.As("a\nb"), ev(thole.Event{Stream: "a", Type: "b"}), thole.ErrInvalid},
		"cause":           {ok.Because(long), ev(thole.Event{Stream: "a", Type: "b"}), thole.ErrTooLarge},
		"stream":          {ok, ev(thole.Event{Type: "b"}), thole.ErrInvalid},
		"type":            {ok, ev(thole.Event{Stream: "a"}), thole.ErrInvalid},
		"subject":         {ok, ev(thole.Event{Stream: "a", Type: "b", Subject: "\x00"}), thole.ErrInvalid},
		"refs":            {ok, ev(thole.Event{Stream: "a", Type: "b", Refs: []string{""}}), thole.ErrInvalid},
		"many refs":       {ok, ev(thole.Event{Stream: "a", Type: "b", Refs: make([]string, 999)}), thole.ErrTooLarge},
		"data":            {ok, ev(thole.Event{Stream: "a", Type: "b", Data: one[:1:1]}), nil},
		"no JSON":         {ok, ev(thole.Event{Stream: "a", Type: "b", Data: json.RawMessage("{")}), thole.ErrInvalid},
		"data not UTF-8":  {ok, ev(thole.Event{Stream: "a", Type: "b", Data: json.RawMessage("\"\xff\"")}), thole.ErrInvalid},
		"deep":            {ok, ev(thole.Event{Stream: "a", Type: "b", Data: deep}), thole.ErrInvalid},
		"big data":        {ok, ev(thole.Event{Stream: "a", Type: "b", Data: big}), thole.ErrTooLarge},
		"big value":       {ok, wr(thole.Write{Key: "a", Value: big}), thole.ErrTooLarge},
		"big notify":      {ok, wr(thole.Write{Key: "a", Value: heavy[0].Value, Notify: true}), thole.ErrTooLarge},
		"empty value":     {ok, wr(thole.Write{Key: "a", Value: json.RawMessage{}}), thole.ErrInvalid},
		"long key":        {ok, wr(thole.Write{Key: long, Value: one}), thole.ErrTooLarge},
		"NUL in key":      {ok, wr(thole.Write{Key: "a\x00", Value: one}), thole.ErrInvalid},
		"key not UTF-8":   {ok, wr(thole.Write{Key: "a\xff", Value: one}), thole.ErrInvalid},
		"key twice":       {ok, wr(thole.Write{Key: "a", Value: one}, thole.Write{Key: "a"}), thole.ErrInvalid},
		"expires long":    {ok, wr(thole.Write{Key: "a", Value: one, Expires: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)}), thole.ErrInvalid},
		"many items":      {ok, wr(many...), thole.ErrTooLarge},
		"heavy":           {ok, wr(heavy...), thole.ErrTooLarge},
		"check of both":   {ok, thole.Commit{Checks: []thole.Check{{Key: "a", Stream: "b"}}, Events: []thole.Event{{Stream: "a", Type: "b"}}}, thole.ErrInvalid},
		"check of none":   {ok, thole.Commit{Checks: []thole.Check{{}}, Events: []thole.Event{{Stream: "a", Type: "b"}}}, thole.ErrInvalid},
		"check long name": {ok, thole.Commit{Checks: []thole.Check{{Key: long}}, Events: []thole.Event{{Stream: "a", Type: "b"}}}, thole.ErrTooLarge},
	} {
		if _, err := c.sp.Commit(t.Context(), c.c); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	for name, err := range map[string]error{
		"update": increment(t.Context(), s.Space("x")),
		"key":    func() error { _, err := ok.Get(t.Context(), ""); return err }(),
		"prefix": func() error { _, err := ok.List(t.Context(), thole.ListQuery{Prefix: "a"}); return err }(),
		"marshal": func() error {
			_, err := ok.Update(t.Context(), func(tx *thole.Tx) error { tx.Put("a", func() {}, nil); return nil })
			return err
		}(),
		"emit": func() error {
			_, err := ok.Update(t.Context(), func(tx *thole.Tx) error { tx.Emit("a", "b", func() {}); return nil })
			return err
		}(),
	} {
		if !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
}

func TestTextIsStoredAsItIs(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	_, err := sp.Update(t.Context(), func(tx *thole.Tx) error { tx.Put("app/html", "<b>&", nil); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if r, err := sp.Get(t.Context(), "app/html"); err != nil || string(r.Value) != `"<b>&"` {
		t.Errorf("got %s, %v", r.Value, err)
	}
}

func TestWhatATxWritesCarriesTheTimeThatItSaw(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	var now time.Time
	_, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
		now = tx.Now()
		for sp.Store().Now().Equal(now) { // the clock counts microseconds
		}
		tx.Put("app/x", 1, nil)
		tx.Emit("app/x", "app.x", nil)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := sp.Get(t.Context(), "app/x")
	if err != nil || !rec.Updated.Equal(now) {
		t.Errorf("record: got %v, %v; want %v", rec.Updated, err, now)
	}
	page, err := sp.Read(t.Context(), thole.ReadQuery{})
	if err != nil || len(page.Events) != 1 || !page.Events[0].Time.Equal(now) {
		t.Errorf("events: got %+v, %v; want one at %v", page.Events, err, now)
	}
}
