package kv

import (
	"errors"
	"testing"

	"github.com/thole-dev/thole"
)

func FuzzNamesComeBackFromRecordKeys(f *testing.F) {
	f.Add("ns", "key")
	f.Add("a/b", "../%2F")
	f.Add("é\xff", "\x00")
	f.Fuzz(func(t *testing.T, namespace, key string) {
		record, err := name(namespace, key)
		if err != nil {
			if !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("name(%q, %q): got %v, want ErrInvalid", namespace, key, err)
			}
			return
		}
		if ns, k, err := parse(record); err != nil || ns != namespace || k != key {
			t.Errorf("%q, %q comes back from %q as %q, %q, %v", namespace, key, record, ns, k, err)
		}
		if _, _, err := parse("kv/" + key); err != nil && !errors.Is(err, thole.ErrCorrupt) {
			t.Errorf("parse %q: got %v, want ErrCorrupt", key, err)
		}
	})
}
