package main

import (
	"errors"
	"testing"

	"github.com/thole-dev/thole"
)

func FuzzGrantFromOutside(f *testing.F) {
	for _, s := range []string{"user:*=read", "project:shop=write@thrd_1,thrd_2", "*=admin", "=", "a=b=c@", "global=admin@"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := parseGrant(s)
		switch {
		case err != nil && !errors.Is(err, thole.ErrInvalid):
			t.Errorf("%q: got %v, want ErrInvalid", s, err)
		case err == nil && g.Check() != nil:
			t.Errorf("%q: got %+v, which is no grant: %v", s, g, g.Check())
		}
	})
}
