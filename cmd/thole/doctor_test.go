package main_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/internal/servertest"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
)

// openSQLite opens a store on a new file.
func openSQLite(t *testing.T) (s *thole.Store, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "thole.db")
	b, err := sqlitestore.Open(t.Context(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = thole.Open(t.Context(), b, &thole.Options{Concepts: rest.Concepts()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, file
}

func TestARunWhoseThreadWasJustDestroyedIsNoProblem(t *testing.T) {
	ctx := t.Context()
	s, file := openSQLite(t)
	sp := s.Space("project:shop")
	th, err := thread.In(sp).Create(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.In(sp, nil).Start(ctx, th.ID, run.Request{Prompt: "go", Agent: "coder"}); err != nil {
		t.Fatal(err)
	}
	if _, err := run.In(sp, nil).Claim(ctx, &run.ClaimOptions{Agent: "coder"}); err != nil {
		t.Fatal(err)
	}
	if err := thread.In(sp).Destroy(ctx, th.ID, nil); err != nil {
		t.Fatal(err)
	}
	got := servertest.Command(t, t.TempDir(), nil, "doctor", "--store", "sqlite:"+file)
	if got.Code != 0 || !strings.Contains(got.Out, "it ends with its lease") {
		t.Errorf("got %+v, want a note and no problem", got)
	}
}

func TestDoctorNotesDecisionsWithoutAnOutcome(t *testing.T) {
	ctx := t.Context()
	s, file := openSQLite(t)
	decisions := decision.In(s.Space("project:shop"))
	for i := range 3 {
		d, err := decisions.Plan(ctx, decision.Plan{Action: "write a file"})
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			continue
		}
		if _, err := decisions.Resolve(ctx, d.ID, decision.Done, nil); err != nil {
			t.Fatal(err)
		}
	}
	got := servertest.Command(t, t.TempDir(), nil, "doctor", "--store", "sqlite:"+file)
	const want = "2 decisions have no outcome; see `thole get project:shop decision-open/`"
	if got.Code != 0 || !strings.Contains(got.Out, want) {
		t.Errorf("got %+v, want a note: %s", got, want)
	}
	if got := servertest.Command(t, t.TempDir(), nil, "get", "project:shop", "decision-open/", "--store", "sqlite:"+file); strings.Count(got.Out, "\n") != 2 {
		t.Errorf("what the note names: got %+v, want two records", got)
	}
}

func TestDoctorComparesNumbersDigitForDigit(t *testing.T) {
	ctx := t.Context()
	s, file := openSQLite(t)
	docs := document.In(s.Space("project:shop"))
	for _, value := range []string{`{"n":0}`, `{"n":9007199254740993,"m":1e999,"o":1.0}`} {
		if _, err := docs.Put(ctx, "d", json.RawMessage(value), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := servertest.Command(t, t.TempDir(), nil, "doctor", "--store", "sqlite:"+file); got.Code != 0 {
		t.Errorf("a healthy document: got %+v", got)
	}
	sql(t, file, `UPDATE record SET value = replace(value, '9007199254740993', '9007199254740992')`)
	got := servertest.Command(t, t.TempDir(), nil, "doctor", "--store", "sqlite:"+file)
	if got.Code == 0 || !strings.Contains(got.Out, "document d is not what its events add up to") {
		t.Errorf("a document with another number in its record: got %+v", got)
	}
}

// A receipt keeps an answer of more than 16 KiB in parts.
func TestDoctorKnowsTheReceiptOfALongAnswer(t *testing.T) {
	s, file := openSQLite(t)
	ctx := thole.WithIdempotencyKey(t.Context(), "k", "")
	if _, err := document.In(s.Space("project:shop")).Put(ctx, "d", strings.Repeat("x", 17_000), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := servertest.Command(t, t.TempDir(), nil, "doctor", "--store", "sqlite:"+file); got.Code != 0 {
		t.Errorf("a healthy receipt: got %+v", got)
	}
	sql(t, file, `UPDATE record SET value = '5' WHERE key LIKE 'idem/%/%/%'`)
	if got := servertest.Command(t, t.TempDir(), nil, "doctor", "--store", "sqlite:"+file); got.Code == 0 || !strings.Contains(got.Out, "record idem/") {
		t.Errorf("a part that is a number: got %+v", got)
	}
}

func TestDoctorCountsChunksThatBelongToNoBlob(t *testing.T) {
	ctx := t.Context()
	s, file := openSQLite(t)
	sp := s.Space("project:shop")
	if _, err := sp.PutBlob(ctx, strings.NewReader(strings.Repeat("0123456789", 500_000)), nil); err != nil {
		t.Fatal(err)
	}
	const what = "belong to no blob"
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := servertest.Command(t, t.TempDir(), nil, "doctor", "--store", "sqlite:"+file); got.Code != 0 || strings.Contains(got.Out, what) {
		t.Errorf("chunks of a blob: got %+v", got)
	}
	sql(t, file, `DELETE FROM record WHERE key LIKE 'blob/%'`)
	if got := servertest.Command(t, t.TempDir(), nil, "doctor", "--store", "sqlite:"+file); got.Code != 0 || !strings.Contains(got.Out, what) {
		t.Errorf("chunks of no blob: got %+v", got)
	}
}

func TestDoctorExaminesTheOtherSpacesBesideADamagedOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	b, err := filestore.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"project:a", "project:z"} {
		for range 2 {
			c := thole.Commit{Space: name, Now: time.Now(), Events: []thole.Event{{Stream: "app/s", Type: "a.b", Data: []byte(`"valuable"`)}}}
			if _, err := b.Commit(t.Context(), []thole.Commit{c}); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.Close()
	journal := filepath.Join(dir, "project", "a", "journal", "0000000000000001.jsonl")
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(journal, bytes.Replace(text, []byte("valuable"), []byte("valueless"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	got := servertest.Command(t, t.TempDir(), nil, "doctor", "--store", "file:"+dir)
	if got.Code == 0 || !strings.Contains(got.Out, "2 spaces examined") || !strings.Contains(got.Out, "damaged") {
		t.Errorf("got %+v, want the damage told and both spaces examined", got)
	}
}

func TestDoctorTellsWhatBelongsToNothingAndWhatDoesNotFit(t *testing.T) {
	ctx := t.Context()
	s, file := openSQLite(t)
	sp := s.Space("project:shop")
	th, err := thread.In(sp).Create(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	gone := thole.NewID("thrd")
	_, err = sp.Commit(ctx, thole.Commit{Writes: []thole.Write{
		{Key: thread.Key(gone) + "/todos", Value: json.RawMessage("[]")},
		{Key: thread.Key(th.ID) + "/todos", Value: json.RawMessage("7")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := servertest.Command(t, t.TempDir(), nil, "doctor", "--store", "sqlite:"+file)
	for _, want := range []string{"record thread/" + gone + "/todos is an orphan: thread/" + gone + " is gone", "record thread/" + th.ID + "/todos: ", "2 problems"} {
		if got.Code == 0 || !strings.Contains(got.Out, want) {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
}

func TestDoctorTellsWhatIsBelowItselfAndWhatShouldHaveEnded(t *testing.T) {
	ctx := t.Context()
	file := filepath.Join(t.TempDir(), "thole.db")
	b, err := sqlitestore.Open(ctx, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := thole.Open(ctx, b, &thole.Options{Concepts: rest.Concepts(), Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	sp := s.Space("project:shop")
	var ids []string
	for range 3 {
		var parent string
		if len(ids) > 0 {
			parent = ids[len(ids)-1]
		}
		th, err := thread.In(sp).Create(ctx, &thread.CreateOptions{Parent: parent})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, th.ID)
	}
	doctor := func() servertest.Outcome {
		return servertest.Command(t, t.TempDir(), nil, "doctor", "--store", "sqlite:"+file)
	}
	if got := doctor(); got.Code != 0 || strings.Contains(got.Out, "below itself") || strings.Contains(got.Out, "have not ended") {
		t.Errorf("before: got %+v, want nothing of that", got)
	}
	_, err = sp.Update(ctx, func(tx *thole.Tx) error {
		tx.Put(thread.Key(ids[2])+"/child/"+ids[0], 1, nil)
		old := &thole.WriteOptions{Expires: tx.Now().Add(-time.Hour), Notify: true}
		tx.Put("app/late", 1, old)
		tx.Put("theirs/late", 1, old)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got := doctor()
	for _, want := range []string{"thread/" + ids[0] + " is below itself", "2 records expired over 5m0s ago and have not ended, the first of them app/late", "1 are of no concept"} {
		if got.Code == 0 || !strings.Contains(got.Out, want) {
			t.Errorf("got %+v, want a problem, and %q", got, want)
		}
	}
}
