package thole_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
)

// randomBytes returns n bytes that depend on n only.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(b)
	return b
}

func readBlob(t *testing.T, sp *thole.Space, hash string) ([]byte, error) {
	t.Helper()
	r, err := sp.OpenBlob(t.Context(), hash)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func TestABlobIsReadBackAndStoredOnce(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	for _, size := range []int{0, 1, 256 << 10, 256<<10 + 1, 2 << 20, 5<<20 + 17} {
		content := randomBytes(size)
		b, err := sp.PutBlob(t.Context(), iotest.HalfReader(bytes.NewReader(content)), nil)
		if err != nil || b.Size != int64(size) {
			t.Fatalf("%d bytes: got %v, %v", size, b, err)
		}
		got, err := readBlob(t, sp, b.Hash)
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes: read %d bytes back, %v", size, len(got), err)
		}
		if has, ok, err := sp.HasBlob(t.Context(), b.Hash); !ok || err != nil || has != b {
			t.Errorf("%d bytes: HasBlob: got %v, %v, %v; want %v", size, has, ok, err, b)
		}
		before, _ := sp.Head(t.Context())
		chunks, _ := sp.List(t.Context(), thole.ListQuery{Prefix: "chunk/"})
		if again, err := sp.PutBlob(t.Context(), bytes.NewReader(content), nil); err != nil || again != b {
			t.Errorf("%d bytes again: got %v, %v; want %v", size, again, err, b)
		}
		if now, _ := sp.List(t.Context(), thole.ListQuery{Prefix: "chunk/"}); !reflect.DeepEqual(now, chunks) {
			t.Errorf("%d bytes again: wrote chunks", size)
		}
		if after, _ := sp.Head(t.Context()); size <= 2<<20 && after.Last != before.Last {
			t.Errorf("%d bytes again: committed something", size)
		}
	}
	page, err := sp.Read(t.Context(), thole.ReadQuery{})
	if err != nil || len(page.Events) != 0 {
		t.Errorf("got %d events, %v; want none", len(page.Events), err)
	}
}

func TestEqualChunksAreStoredOnce(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	b, err := sp.PutBlob(t.Context(), bytes.NewReader(make([]byte, 40*256<<10)), nil)
	if err != nil {
		t.Fatal(err)
	}
	chunks, err := sp.List(t.Context(), thole.ListQuery{Prefix: "chunk/"})
	if err != nil || len(chunks) != 1 {
		t.Errorf("got %d chunks, %v; want 1", len(chunks), err)
	}
	if got, err := readBlob(t, sp, b.Hash); err != nil || len(got) != 40*256<<10 {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

func TestABlobCanBeReadFromAnywhere(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	content := randomBytes(700_000)
	b, err := sp.PutBlob(t.Context(), bytes.NewReader(content), nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := sp.OpenBlob(t.Context(), b.Hash)
	if err != nil {
		t.Fatal(err)
	}
	if err := iotest.TestReader(r, content); err != nil {
		t.Error(err)
	}
	if r.Blob() != b {
		t.Errorf("got %v, want %v", r.Blob(), b)
	}
	if _, err := r.Seek(-1, io.SeekStart); !errors.Is(err, thole.ErrInvalid) {
		t.Errorf("seek before the start: got %v, want ErrInvalid", err)
	}
}

func TestATamperedBlobIsCorrupt(t *testing.T) {
	for name, tamper := range map[string]func(tx *thole.Tx, head thole.Record){
		"chunk changed":  func(tx *thole.Tx, head thole.Record) { tx.Put(chunkOf(head, 1), []byte("other"), nil) },
		"chunk no JSON":  func(tx *thole.Tx, head thole.Record) { tx.Put(chunkOf(head, 1), 17, nil) },
		"chunk missing":  func(tx *thole.Tx, head thole.Record) { tx.Delete(chunkOf(head, 0)) },
		"head of other":  func(tx *thole.Tx, head thole.Record) { tx.Put(head.Key, map[string]any{"size": 0, "chunks": nil}, nil) },
		"head too short": func(tx *thole.Tx, head thole.Record) { tx.Put(head.Key, map[string]any{"size": 300_000}, nil) },
		"head no JSON":   func(tx *thole.Tx, head thole.Record) { tx.Put(head.Key, "x", nil) },
	} {
		sp := open(t, nil).Space("project:shop")
		b, err := sp.PutBlob(t.Context(), bytes.NewReader(randomBytes(300_000)), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = sp.Update(t.Context(), func(tx *thole.Tx) error {
			head, err := tx.Get("blob/" + b.Hash)
			tamper(tx, head)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readBlob(t, sp, b.Hash); !errors.Is(err, thole.ErrCorrupt) {
			t.Errorf("%s: got %d bytes, %v; want ErrCorrupt", name, len(got), err)
		}
		// A second put repairs it.
		if _, err := sp.PutBlob(t.Context(), bytes.NewReader(randomBytes(300_000)), nil); err != nil {
			t.Fatal(err)
		}
		if got, err := readBlob(t, sp, b.Hash); err != nil || !bytes.Equal(got, randomBytes(300_000)) {
			t.Errorf("%s, put again: got %d bytes, %v", name, len(got), err)
		}
	}
}

func chunkOf(head thole.Record, i int) string {
	var h struct{ Chunks []string }
	if err := head.As(&h); err != nil {
		panic(err)
	}
	return "chunk/" + h.Chunks[i]
}

func TestABlobThatCannotBeIsRefused(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	_, err := sp.PutBlob(t.Context(), strings.NewReader("12345"), &thole.BlobOptions{MaxBytes: 4})
	if !errors.Is(err, thole.ErrTooLarge) {
		t.Errorf("too large: got %v, want ErrTooLarge", err)
	}
	broken := errors.New("broken pipe")
	if _, err := sp.PutBlob(t.Context(), iotest.ErrReader(broken), nil); !errors.Is(err, broken) {
		t.Errorf("broken reader: got %v", err)
	}
	for _, hash := range []string{"", "x", strings.Repeat("A", 64), strings.Repeat("a", 62) + "/.", strings.Repeat("a", 66)} {
		if _, err := sp.OpenBlob(t.Context(), hash); !errors.Is(err, thole.ErrInvalid) {
			t.Errorf("OpenBlob(%q): got %v, want ErrInvalid", hash, err)
		}
	}
	absent := strings.Repeat("a", 64)
	if _, err := sp.OpenBlob(t.Context(), absent); !errors.Is(err, thole.ErrNotFound) {
		t.Errorf("absent: got %v, want ErrNotFound", err)
	}
	if _, ok, err := sp.HasBlob(t.Context(), absent); ok || err != nil {
		t.Errorf("HasBlob of an absent one: got %v, %v", ok, err)
	}
}

func TestABlobThatFailedHalfWayDoesNotExistAndResumes(t *testing.T) {
	content := randomBytes(5 << 20) // 20 chunks: three commits
	for cut := 1; cut <= 3; cut++ {
		faulty := &faults{Backend: memstore.New()}
		sp := openOn(t, faulty, nil).Space("project:shop")
		faulty.breakCommit(cut, before)
		if _, err := sp.PutBlob(t.Context(), bytes.NewReader(content), nil); !errors.Is(err, errFault) {
			t.Fatalf("cut %d: got %v, want the fault", cut, err)
		}
		heads, err := sp.List(t.Context(), thole.ListQuery{Prefix: "blob/"})
		if err != nil || len(heads) != 0 {
			t.Errorf("cut %d: got %d heads, %v; want none", cut, len(heads), err)
		}
		ctx := thole.WithIdempotencyKey(context.Background(), "k", "f")
		b, err := sp.PutBlob(ctx, bytes.NewReader(content), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readBlob(t, sp, b.Hash); err != nil || !bytes.Equal(got, content) {
			t.Errorf("cut %d, put again: got %d bytes, %v", cut, len(got), err)
		}
	}
}
