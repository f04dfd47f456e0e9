package rest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/thole-dev/thole"
)

func FuzzTokensFromOutside(f *testing.F) {
	for _, s := range []string{"", "1", "1YT0K", "bG9jay9hL293bmVyQDAwMDFkZWFkYmVlZi0wMDAwMDAwMDAwMDAwMDAx.AAECAwQFBgcICQoLDA0ODw", "bG9jay9hQDAwMDFkZWFkYmVlZi0wMDAwMDAwMDAwMDAwMDAx", "@", "x@%zz", `"0001deadbeef-0000000000000001"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if at, err := parseCompound(s); err != nil && !errors.Is(err, thole.ErrInvalid) {
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

func TestEveryCodeHasOneStatus(t *testing.T) {
	statuses := map[string]int{}
	for _, k := range kinds() {
		p := problemOf(fmt.Errorf("x: %w", k.err), asItIs)
		if p.Code != k.code || p.Status != k.status {
			t.Errorf("%v is %d %s, want %d %s as in the table", k.err, p.Status, p.Code, k.status, k.code)
		}
		if had, ok := statuses[p.Code]; ok && had != p.Status {
			t.Errorf("%s is %d and %d", p.Code, had, p.Status)
		}
		statuses[p.Code] = p.Status
	}
	for err, want := range map[error]int{context.Canceled: 503, context.DeadlineExceeded: 503, thole.ErrCancelled: 409} {
		if p := problemOf(err, asItIs); p.Status != want || statuses[p.Code] != want {
			t.Errorf("%v is %d %s, want %d", err, p.Status, p.Code, want)
		}
	}
}
