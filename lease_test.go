package thole_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
)

func TestAFenceSurvivesItsTextForm(t *testing.T) {
	epoch := thole.NewEpoch(1)
	for _, f := range []thole.Fence{
		{Key: "run/run_1/owner", Token: thole.Position{Epoch: epoch, Seq: 7}},
		{Key: "lock/a@b@é/owner", Token: thole.Position{Epoch: epoch, Seq: thole.MaxSeq}},
		{Key: strings.Repeat("k", thole.MaxNameBytes), Token: thole.Position{Epoch: epoch}},
	} {
		text := f.String()
		got, err := thole.ParseFence(text)
		if err != nil || got != f {
			t.Errorf("ParseFence(%q): got %v, %v; want %v", text, got, err, f)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' || r == '"' }) {
			t.Errorf("%q is not safe in a header", text)
		}
	}
	if got := (thole.Fence{}).String(); got != "" {
		t.Errorf("zero fence: got %q, want empty", got)
	}
}

func FuzzParseFence(f *testing.F) {
	f.Add("")
	f.Add("***")
	f.Add("YQ")
	f.Add("YUA")
	f.Add("Y\nUA")
	f.Add(thole.Fence{Key: "a/owner", Token: thole.Position{Epoch: thole.NewEpoch(1), Seq: 3}}.String())
	f.Fuzz(func(t *testing.T, s string) {
		got, err := thole.ParseFence(s)
		switch {
		case err == nil && got.String() != s:
			t.Errorf("%q is printed as %q", s, got.String())
		case err != nil && !errors.Is(err, thole.ErrInvalid) && !errors.Is(err, thole.ErrTooLarge):
			t.Errorf("%q: got %v, want ErrInvalid", s, err)
		}
	})
}
