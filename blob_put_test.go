package thole_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/journal"
)

func TestNothingIsLeftOfABlobThatFailed(t *testing.T) {
	for name, put := range map[string]func(sp *thole.Space) error{
		"its reader fails": func(sp *thole.Space) error {
			_, err := sp.PutBlob(t.Context(), io.MultiReader(bytes.NewReader(randomBytes(5<<20)), iotest.ErrReader(errors.New("refused"))), nil)
			return err
		},
		"it is too large": func(sp *thole.Space) error {
			_, err := sp.PutBlob(t.Context(), bytes.NewReader(randomBytes(5<<20)), &thole.BlobOptions{MaxBytes: 4 << 20})
			return err
		},
		"its context ends": func(sp *thole.Space) error {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := sp.PutBlob(ctx, io.MultiReader(bytes.NewReader(randomBytes(5<<20)), then(cancel)), nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			sp := open(t, nil).Space("project:shop")
			earlier, err := sp.PutBlob(t.Context(), bytes.NewReader(randomBytes(5 << 20)[:3<<20]), nil) // has chunks in common with it
			if err != nil {
				t.Fatal(err)
			}
			chunks := left(t, sp, "chunk/")
			if err := put(sp); err == nil {
				t.Fatal("it did not fail")
			}
			if n := left(t, sp, "chunk/"); n != chunks {
				t.Errorf("%d chunks, want those %d of the earlier blob", n, chunks)
			}
			if n := left(t, sp, "upload/"); n != 0 {
				t.Errorf("%d uploads are left", n)
			}
			if got, err := readBlob(t, sp, earlier.Hash); err != nil || len(got) != 3<<20 {
				t.Errorf("the earlier blob: got %d bytes, %v", len(got), err)
			}
		})
	}
}

// then is a reader that calls a function and yields one more byte.
type then func()

func (f then) Read(p []byte) (int, error) { f(); return copy(p, "x"), io.EOF }

// A process is killed while it puts a blob. The sweep deletes its chunks, except those
// on which another upload relies.
func TestASweepDropsTheChunksOfAnUploadThatWasKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend, dead := memstore.New(), false
		ours := openOn(t, dies{backend, false, &dead}, &thole.Options{Sweep: -1}).Space("project:shop")
		theirs := openOn(t, kept{backend}, nil).Space("project:shop")
		content := randomBytes(6 << 20)
		_, err := ours.PutBlob(t.Context(), io.MultiReader(bytes.NewReader(content), then(func() { dead = true })), nil)
		if err == nil {
			t.Fatal("it did not fail")
		}
		if left(t, theirs, "chunk/") == 0 {
			t.Fatal("nothing was stored before the process died")
		}
		same, err := theirs.PutBlob(t.Context(), bytes.NewReader(content[:3<<20]), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if n := left(t, theirs, "chunk/"); n != 12 {
			t.Errorf("%d chunks are left, want the 12 of the other blob", n)
		}
		if n := left(t, theirs, "upload/"); n != 0 {
			t.Errorf("%d uploads are left", n)
		}
		if got, err := readBlob(t, theirs, same.Hash); err != nil || !bytes.Equal(got, content[:3<<20]) {
			t.Errorf("the other blob: got %d bytes, %v", len(got), err)
		}
	})
}

// Two uploads of the same content are under way; the one that stored the chunks fails.
func TestAnUploadKeepsTheChunksThatAnotherOneStored(t *testing.T) {
	sp := open(t, nil).Space("project:shop")
	content := randomBytes(6 << 20)
	refused := func() {
		_, err := sp.PutBlob(t.Context(), io.MultiReader(bytes.NewReader(content), iotest.ErrReader(errors.New("refused"))), nil)
		if err == nil {
			t.Error("it did not fail")
		}
	}
	// The inner upload, which fails, relies on chunks of the outer one and stores
	// others, on which the outer one relies later.
	got, err := sp.PutBlob(t.Context(), io.MultiReader(bytes.NewReader(content[:3<<20]), &once{do: refused}, bytes.NewReader(content[3<<20:])), nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := readBlob(t, sp, got.Hash); err != nil || !bytes.Equal(b, content) {
		t.Errorf("got %d bytes, %v", len(b), err)
	}
	// The other way round: the outer upload fails, and the inner one relies on its
	// chunks.
	more := randomBytes(6<<20 + 7)
	var inner thole.Blob
	_, err = sp.PutBlob(t.Context(), io.MultiReader(bytes.NewReader(more[:5<<20]), &once{do: func() {
		inner, err = sp.PutBlob(t.Context(), bytes.NewReader(more), nil)
		if err != nil {
			t.Error(err)
		}
	}}, iotest.ErrReader(errors.New("refused"))), nil)
	if err == nil {
		t.Error("it did not fail")
	}
	if b, err := readBlob(t, sp, inner.Hash); err != nil || !bytes.Equal(b, more) {
		t.Errorf("the inner blob: got %d bytes, %v", len(b), err)
	}
}

// once is an empty reader that first calls a function.
type once struct{ do func() }

func (o *once) Read([]byte) (int, error) { o.do(); return 0, io.EOF }

// An upload that was dropped because it was idle for too long does not become a blob
// without chunks.
func TestAnUploadThatWasDroppedIsNotFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := open(t, nil).Space("project:shop")
		content := randomBytes(6 << 20)
		wait := &once{do: func() { time.Sleep(2 * time.Hour) }}
		_, err := sp.PutBlob(t.Context(), io.MultiReader(bytes.NewReader(content[:5<<20]), wait, bytes.NewReader(content[5<<20:])), nil)
		if !errors.Is(err, thole.ErrConflict) {
			t.Errorf("got %v, want ErrConflict", err)
		}
		if n := left(t, sp, "chunk/") + left(t, sp, "blob/") + left(t, sp, "upload/"); n != 0 {
			t.Errorf("%d records are left", n)
		}
	})
}

// meddled is a backend that calls a function right before the first commit that
// matches, after everything that the commit depends on was read.
type meddled struct {
	journal.Backend
	match func(*thole.Commit) bool
	do    func()
	once  sync.Once
}

func (m *meddled) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	for i := range batch {
		if m.match(&batch[i]) {
			m.once.Do(m.do)
		}
	}
	return m.Backend.Commit(ctx, batch)
}

// between returns the space in two Stores on one backend; do runs in the other one
// right before the first matching commit of ours.
func between(t *testing.T, match func(*thole.Commit) bool, do func()) (ours, other *thole.Space, happened func() bool) {
	t.Helper()
	backend, done := memstore.New(), false
	m := &meddled{Backend: backend, match: match, do: func() { do(); done = true }}
	ours = openOn(t, m, &thole.Options{Sweep: -1}).Space("project:shop")
	other = openOn(t, kept{backend}, &thole.Options{Sweep: -1}).Space("project:shop")
	return ours, other, func() bool { return done }
}

// stalled begins to put content, whose last bytes never come. finish lets the put fail
// and waits until its chunks are dropped.
func stalled(t *testing.T, sp *thole.Space, content []byte) (finish func()) {
	t.Helper()
	reached, fail, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		wait := &once{do: func() { close(reached); <-fail }}
		_, err := sp.PutBlob(t.Context(), io.MultiReader(bytes.NewReader(content), wait, iotest.ErrReader(errors.New("refused"))), nil)
		if err == nil {
			t.Error("it did not fail")
		}
	}()
	<-reached
	return sync.OnceFunc(func() { close(fail); <-gone })
}

func TestAChunkThatIsDroppedRightBeforeABlobReliesOnItIsStoredAgain(t *testing.T) {
	var drop func()
	ours, other, happened := between(t, writes("blob/"), func() { drop() })
	content := randomBytes(5 << 20)
	drop = stalled(t, other, content)
	defer drop()
	b, err := ours.PutBlob(t.Context(), bytes.NewReader(content[:2<<20]), nil)
	if err != nil || !happened() {
		t.Fatal(err, happened())
	}
	if got, err := readBlob(t, ours, b.Hash); err != nil || !bytes.Equal(got, content[:2<<20]) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestAChunkOnWhichABlobReliesRightBeforeItIsDroppedStays(t *testing.T) {
	var rely func()
	ours, other, happened := between(t, deletes("chunk/"), func() { rely() })
	content := randomBytes(5 << 20)
	var b thole.Blob
	rely = func() {
		var err error
		if b, err = other.PutBlob(t.Context(), bytes.NewReader(content[:2<<20]), nil); err != nil {
			t.Error(err)
		}
	}
	stalled(t, ours, content)()
	if !happened() {
		t.Fatal("nothing was dropped")
	}
	if got, err := readBlob(t, other, b.Hash); err != nil || !bytes.Equal(got, content[:2<<20]) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if n := left(t, other, "chunk/"); n != 8 {
		t.Errorf("%d chunks are left, want the 8 of the other blob", n)
	}
}

func writes(prefix string) func(*thole.Commit) bool {
	return func(c *thole.Commit) bool {
		return slices.ContainsFunc(c.Writes, func(w thole.Write) bool { return strings.HasPrefix(w.Key, prefix) && w.Value != nil })
	}
}

func deletes(prefix string) func(*thole.Commit) bool {
	return func(c *thole.Commit) bool {
		return slices.ContainsFunc(c.Writes, func(w thole.Write) bool { return strings.HasPrefix(w.Key, prefix) && w.Value == nil })
	}
}

// Another put of the same content fails during ours, which has stored nothing yet.
func TestABlobIsStoredAlthoughAnotherPutOfItFails(t *testing.T) {
	every := []int{2 << 20, 5 << 20, 8 << 20} // bytes that ours has read when the other one fails
	for _, has := range effort.Amount(every[1:2], every, every) {
		sp := open(t, nil).Space("project:shop")
		content := randomBytes(9 << 20)
		fail := stalled(t, sp, content[:8<<20+1])
		b, err := sp.PutBlob(t.Context(), io.MultiReader(bytes.NewReader(content[:has]), &once{do: fail}, bytes.NewReader(content[has:])), nil)
		if err != nil {
			t.Fatalf("after %d bytes: %v", has, err)
		}
		if got, err := readBlob(t, sp, b.Hash); err != nil || !bytes.Equal(got, content) {
			t.Errorf("after %d bytes: got %d bytes, %v", has, len(got), err)
		}
		if n := left(t, sp, "chunk/"); n != 36 {
			t.Errorf("after %d bytes: %d chunks are left, want 36", has, n)
		}
		if n := left(t, sp, "upload/"); n != 0 {
			t.Errorf("after %d bytes: %d uploads are left", has, n)
		}
	}
}
