package main_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/servertest"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
)

func TestNoNameThatAWriterGivesIsAProblemToDoctor(t *testing.T) {
	ctx := t.Context()
	s, path := openSQLite(t)
	sp := s.Space("project:c")
	for _, name := range []string{"beat", "x/beat"} {
		if _, err := document.In(sp).Put(ctx, name, 1, nil); err != nil {
			t.Fatal(err)
		}
		for _, ns := range []string{"m", "lock/l"} {
			if _, err := kv.In(sp).Set(ctx, ns, name, 1, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := file.In(sp).Found(ctx, name, strings.Repeat("0", 64)); err != nil {
			t.Fatal(err)
		}
		l, err := lock.In(sp).Acquire(ctx, name, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release(ctx)
		_, err = sp.Commit(ctx, thole.Commit{Writes: []thole.Write{{Key: "app/" + name, Value: json.RawMessage("1")}, {Key: "app/q/" + url.PathEscape(name), Value: json.RawMessage("1")}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := servertest.Command(t, t.TempDir(), nil, "doctor", "--store", "sqlite:"+path); got.Code != 0 {
		t.Errorf("got %+v, want no problem", got)
	}
}
