package thole_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// acquired acquires the lease job and returns its fence.
func acquired(t *testing.T, sp *thole.Space, holder string) (f thole.Fence) {
	t.Helper()
	res, err := sp.Update(t.Context(), func(tx *thole.Tx) (err error) {
		f, err = tx.Acquire("job", holder, time.Minute)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f.At(res)
}

// guessed returns what an outsider can construct without the secret of a fence.
func guessed(f thole.Fence) string {
	return base64.RawURLEncoding.EncodeToString([]byte(f.Key + "@" + f.Token.String()))
}

func TestOnlyTheHolderOfALeaseCanProveIt(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	f := acquired(t, sp, "a")
	parsed, err := thole.ParseFence(f.Proof())
	if err != nil || !parsed.Is(f) || parsed.Proof() != f.Proof() {
		t.Fatalf("ParseFence(%s): got %v, %v; want %v", f.Proof(), parsed, err, f)
	}
	if err := sp.Prove(t.Context(), parsed); err != nil {
		t.Errorf("the holder: got %v", err)
	}
	first := acquired(t, sp, "a")
	for what, text := range map[string]string{
		"an earlier token":             f.Proof(),
		"key and position":             guessed(first),
		"another secret":               guessed(first) + "." + strings.Split(f.Proof(), ".")[1],
		"a secret of zeros":            guessed(first) + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 16)),
		"a lease that nobody holds":    guessed(thole.Fence{Key: "x/owner", Token: first.Token}) + "." + strings.Split(first.Proof(), ".")[1],
		"a record that is not a lease": guessed(thole.Fence{Key: "job/beat", Token: first.Token}) + "." + strings.Split(first.Proof(), ".")[1],
	} {
		f, err := thole.ParseFence(text)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if err := sp.Prove(t.Context(), f); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("%s: got %v, want ErrFenced", what, err)
		}
	}
}

func TestALeaseFromBeforeSecretsCannotBeProvenButRunsOut(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	sp := open(t, &thole.Options{Now: func() time.Time { return now }, Sweep: -1}).Space("user:1")
	res, err := sp.Update(t.Context(), func(tx *thole.Tx) error {
		tx.Put("job/owner", json.RawMessage(`{"holder":"old"}`), nil)
		tx.Put("job/beat", json.RawMessage(`{"ttl_ms":60000}`), &thole.WriteOptions{Expires: now.Add(time.Minute)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	old := thole.Fence{Key: "job/owner", Token: res.Last}
	for _, text := range []string{guessed(old), guessed(old) + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 16))} {
		f, err := thole.ParseFence(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := sp.Prove(t.Context(), f); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("Prove: got %v, want ErrFenced", err)
		}
	}
	if err := sp.Renew(t.Context(), old, time.Minute); err != nil {
		t.Errorf("its holder in this program: got %v", err)
	}
	now = now.Add(time.Hour)
	acquired(t, sp, "new")
}

// Only Proof returns the secret.
func TestNoPrintOrRecordShowsTheSecretOfAFence(t *testing.T) {
	sp := open(t, nil).Space("user:1")
	f := acquired(t, sp, "a")
	_, secret, _ := strings.Cut(f.Proof(), ".")
	raw, err := base64.RawURLEncoding.DecodeString(secret)
	if err != nil || len(raw) != 16 {
		t.Fatalf("the proof %s ends in %d bytes (%v), want 16", f.Proof(), len(raw), err)
	}
	around := struct {
		hidden thole.Fence
		Shown  thole.Fence
	}{f, f}
	asJSON, err := json.Marshal(around)
	if err != nil {
		t.Fatal(err)
	}
	seen := []string{string(asJSON), f.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		seen = append(seen, fmt.Sprintf(verb, f), fmt.Sprintf(verb, around), fmt.Sprintf(verb, sp.Under(f)))
	}
	for rec, err := range sp.Records(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, string(rec.Value))
	}
	list := fmt.Sprint(raw)
	for _, s := range seen {
		for _, form := range []string{secret, fmt.Sprintf("%x", raw), strings.Trim(list, "[]"), string(raw), fmt.Sprintf("%#v", raw)[len("[]byte{"):]} {
			if strings.Contains(s, form) {
				t.Errorf("%.300q shows the secret", s)
			}
		}
	}
}

func TestAFenceSurvivesItsTextForm(t *testing.T) {
	epoch := journal.NewEpoch(1)
	for _, f := range []thole.Fence{
		{Key: "run/run_1/owner", Token: thole.Position{Epoch: epoch, Seq: 7}},
		{Key: "lock/a@b@é/owner", Token: thole.Position{Epoch: epoch, Seq: journal.MaxSeq}},
		{Key: strings.Repeat("k", thole.MaxNameBytes), Token: thole.Position{Epoch: epoch}},
	} {
		if got := f.Proof(); got != "" {
			t.Errorf("a fence without a secret: got %q, want no proof", got)
		}
		text := guessed(f) + ".AAECAwQFBgcICQoLDA0ODw"
		got, err := thole.ParseFence(text)
		if err != nil || !got.Is(f) || got.Proof() != text {
			t.Errorf("ParseFence(%q): got %v, %v; want %v", text, got, err, f)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' || r == '"' }) {
			t.Errorf("%q is not safe in a header", text)
		}
	}
}

func FuzzParseFence(f *testing.F) {
	f.Add("")
	f.Add("***")
	f.Add("YQ")
	f.Add("YUA")
	f.Add("Y\nUA")
	f.Add("YUA.")
	f.Add("YUA.AAECAwQFBgcICQoLDA0ODw")
	old := guessed(thole.Fence{Key: "a/owner", Token: thole.Position{Epoch: journal.NewEpoch(1), Seq: 3}})
	f.Add(old)
	f.Add(old + ".AAECAwQFBgcICQoLDA0ODw")
	f.Add(old + ".AAECAwQFBgcICQoLDA0ODw.AA")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := thole.ParseFence(s)
		switch {
		case err == nil && got.Proof() != s && guessed(got) != s:
			t.Errorf("%q is printed as %q", s, got.Proof())
		case err != nil && !errors.Is(err, thole.ErrInvalid) && !errors.Is(err, thole.ErrTooLarge):
			t.Errorf("%q: got %v, want ErrInvalid", s, err)
		}
	})
}

// TestALostLeaseStopsWhatIsNotACommit covers updates that find nothing to change,
// updates that fail, and purges.
func TestALostLeaseStopsWhatIsNotACommit(t *testing.T) {
	s := open(t, &thole.Options{Sweep: -1})
	sp := s.Space("project:shop")
	lost := acquired(t, sp, "a")
	if _, err := sp.Update(t.Context(), func(tx *thole.Tx) error { tx.Release("job"); return nil }); err != nil {
		t.Fatal(err)
	}
	held := acquired(t, sp, "b")
	for name, do := range map[string]func(sp *thole.Space) error{
		"an update that changes nothing": func(sp *thole.Space) error {
			_, err := sp.Update(t.Context(), func(tx *thole.Tx) error { return nil })
			return err
		},
		"an update that fails": func(sp *thole.Space) error {
			_, err := sp.Update(t.Context(), func(tx *thole.Tx) error { return thole.ErrExists })
			return err
		},
		"a purge": func(sp *thole.Space) error { return sp.Purge(t.Context(), thole.Purge{Streams: []string{"app/x"}}) },
	} {
		if err := do(sp.Under(lost)); !errors.Is(err, thole.ErrFenced) {
			t.Errorf("%s under a lost lease: got %v, want ErrFenced", name, err)
		}
		if err := do(sp.Under(held)); errors.Is(err, thole.ErrFenced) {
			t.Errorf("%s under the lease: got %v", name, err)
		}
	}
}

func TestAnUpdateThatChangesNothingStillNeedsItsChecksToHold(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	commitNumbers(t, sp, 1, 1)
	head, err := sp.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page, err := sp.Read(t.Context(), thole.ReadQuery{})
	if err != nil {
		t.Fatal(err)
	}
	stream := page.Events[0].Stream
	for _, c := range []struct {
		check thole.Check
		holds bool
	}{
		{thole.Check{Key: "k"}, true}, {thole.Check{Key: "k", At: head.Last}, false},
		{thole.Check{Stream: stream, At: head.Last}, true}, {thole.Check{Stream: stream}, false}, {thole.Check{Stream: "other"}, true},
	} {
		_, err := sp.Update(t.Context(), func(tx *thole.Tx) error { tx.Check(c.check); return nil })
		if c.holds && err != nil || !c.holds && !errors.As(err, new(*thole.ConflictError)) {
			t.Errorf("%+v: got %v, want it to hold: %t", c.check, err, c.holds)
		}
	}
}
