package rest

import (
	"errors"
	"testing"

	"github.com/thole-dev/thole"
)

func FuzzTokensFromOutside(f *testing.F) {
	for _, s := range []string{"", "1", "1YT0K", "bG9jay9hL293bmVyQDAwMDFkZWFkYmVlZi0wMDAwMDAwMDAwMDAwMDAx.AAECAwQFBgcICQoLDA0ODw", "bG9jay9hQDAwMDFkZWFkYmVlZi0wMDAwMDAwMDAwMDAwMDAx", "@", "x@%zz", `"0001deadbeef-0000000000000001"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if at, err := parseCompound("after", s); err != nil && !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("parseCompound(%q) = %v, %v", s, at, err)
		}
		fence, err := parseFence(s)
		if err != nil && !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("parseFence(%q) = %v", s, err)
		}
		if proof := fence.Proof(); err == nil && proof != "" {
			if again, err := parseFence(proof); err != nil || !again.Is(fence) || again.Proof() != proof {
				t.Errorf("fence %v comes back as %v, %v", fence, again, err)
			}
		}
		if _, err := parseEntityTag(s); err != nil && !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("parseEntityTag(%q) = %v", s, err)
		}
	})
}
