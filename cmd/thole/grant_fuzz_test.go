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

func TestAGrantWithTwoAccessesIsRefused(t *testing.T) {
	for _, s := range []string{"project:a=read=write", "project:a=admin=read", "user:*=work=write@thrd_019b76da000070008000000000000001"} {
		if g, err := parseGrant(s); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("%s: got %+v, %v; want ErrInvalid", s, g, err)
		}
	}
	if g, err := parseGrant("project:a=b=read"); err != nil || g.Space != "project:a=b" {
		t.Errorf("a space with = in its name: got %+v, %v", g, err)
	}
}
