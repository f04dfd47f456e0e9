package thole_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/journal"
)

func TestASpacesNameIsNoPatternAndNoList(t *testing.T) {
	for _, good := range []string{"global", "project:shop", "user:a@b.c", "k-2_x:Ü=1;é:x", "org:acme.inc"} {
		if err := errors.Join(journal.CheckSpaceName(good), journal.CheckSpacePattern(good)); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, good := range []string{"*", "project:*"} {
		if err := journal.CheckSpacePattern(good); err != nil {
			t.Errorf("pattern %q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "*", "project", "project:", ":a", "project:*", "project:a*", "project:a,b", " project:a", "project: a", "project:a ",
		"project:a\u00a0b", "project:a\tb", "project:a\u0085", "project:a/b", "PROJECT:a", "Project:a", "1p:a", "global:", "project:a\xff"} {
		if err := journal.CheckSpaceName(bad); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", bad, err)
		}
	}
	for _, bad := range []string{"", "**", "*:*", "pro*", "PROJECT:a", "PROJECT:*", " project:a", " *", "project:a*", "project:a,project:b", "project:*:*"} {
		if err := journal.CheckSpacePattern(bad); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("pattern %q: got %v, want ErrInvalid", bad, err)
		}
	}
}

func TestASpaceOfAnEarlierVersionIsReadWrittenAndErasedButNoneIsMade(t *testing.T) {
	ctx := t.Context()
	b := memstore.New()
	c := thole.Commit{Events: []thole.Event{{Stream: "app/x", Type: "app.x", Data: json.RawMessage("1")}}}
	old := c
	old.Space = "project:a,b"
	if _, err := b.Commit(ctx, []thole.Commit{old}); err != nil { // as an earlier version did
		t.Fatal(err)
	}
	s, err := thole.Open(ctx, b, &thole.Options{Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	there, other := s.Space("project:a,b"), s.Space("project:*")
	if _, err := other.Commit(ctx, c); !errors.Is(err, thole.ErrInvalid) {
		t.Errorf("a new space %s: got %v, want ErrInvalid", other.Name(), err)
	}
	for name, read := range map[string]func(sp *thole.Space) error{
		"Get":  func(sp *thole.Space) error { _, err := sp.Get(ctx, "app/x"); return err },
		"List": func(sp *thole.Space) error { _, err := sp.List(ctx, thole.ListQuery{}); return err },
		"Read": func(sp *thole.Space) error { _, err := sp.Read(ctx, thole.ReadQuery{}); return err },
		"Head": func(sp *thole.Space) error { _, err := sp.Head(ctx); return err },
		"Watch": func(sp *thole.Space) error {
			w, err := sp.Watch(ctx, nil)
			if err == nil {
				w.Close()
			}
			return err
		},
	} {
		if err := read(there); err != nil {
			t.Errorf("%s of the old space: %v", name, err)
		}
		if err := read(other); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("%s of %s, which no space can be called: got %v, want ErrInvalid", name, other.Name(), err)
		}
	}
	if _, err := there.Commit(ctx, c); err != nil {
		t.Errorf("a commit to the old space: %v", err)
	}
	if p, err := there.Read(ctx, thole.ReadQuery{}); err != nil || len(p.Events) != 2 {
		t.Errorf("read the old space: got %d events, %v", len(p.Events), err)
	}
	if err := there.Purge(ctx, thole.Purge{All: true}); err != nil {
		t.Errorf("erase the old space: %v", err)
	}
	if _, err := there.Commit(ctx, c); !errors.Is(err, thole.ErrInvalid) {
		t.Errorf("make it again: got %v, want ErrInvalid", err)
	}
}

// The sweep refuses a message that an earlier version accepted; a new one is refused at
// once.
func TestAMessageToASpaceThatMayNotBeMadeIsRefused(t *testing.T) {
	ctx := t.Context()
	b := memstore.New()
	s, err := thole.Open(ctx, b, &thole.Options{Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := thole.Commit{Writes: []thole.Write{{Key: "app/x", Value: json.RawMessage("1")}}}
	sp := s.Space("project:shop")
	_, err = sp.Update(ctx, func(tx *thole.Tx) error { tx.Send("user:a b", c, nil); return nil })
	if !errors.Is(err, thole.ErrInvalid) {
		t.Errorf("send: got %v, want ErrInvalid", err)
	}
	old := thole.Commit{Space: "project:shop", Now: s.Now(), Writes: []thole.Write{{Key: "outbox/out_1", Expires: s.Now(),
		Value: json.RawMessage(`{"to":"user:a b","actor":"user:1","writes":[{"key":"app/x","value":1}]}`)}}}
	if _, err := b.Commit(ctx, []thole.Commit{old}); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(ctx); err != nil {
		t.Error(err)
	}
	if left, err := sp.List(ctx, thole.ListQuery{Prefix: "outbox/"}); err != nil || len(left) > 0 {
		t.Errorf("neither delivered nor refused: %v, %v", left, err)
	}
	if got := types(t, sp, "outbox/out_1"); got != "outbox.refused" {
		t.Errorf("got %q, want outbox.refused", got)
	}
}
