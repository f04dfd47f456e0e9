package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/thole-dev/thole/internal/failstop"
	"github.com/thole-dev/thole/journal"
)

const segmentExt = ".jsonl"

// segmentPath returns the file of a segment of the space in dir.
func segmentPath(dir string, first uint64) string {
	return filepath.Join(dir, "journal", fmt.Sprintf("%016d", first)+segmentExt)
}

// segments returns the first seq of each segment of the space in dir, in order.
func (s *Store) segments(dir string) ([]uint64, error) {
	entries, err := s.disk.ReadDir(filepath.Join(dir, "journal"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var firsts []uint64
	for _, e := range entries {
		stem, ok := strings.CutSuffix(e.Name(), segmentExt)
		if n, err := strconv.ParseUint(stem, 10, 64); ok && err == nil && segmentPath("", n) == filepath.Join("journal", e.Name()) {
			firsts = append(firsts, n)
		}
	}
	slices.Sort(firsts)
	return firsts, nil
}

// readHead returns the head that a segment begins with.
func (s *Store) readHead(dir string, first uint64) (journal.Head, error) {
	for size := int64(4 << 10); ; size *= 8 {
		data, err := s.readAt(dir, first, 0, size)
		if err != nil {
			return journal.Head{}, err
		}
		begin, _, whole := bytes.Cut(data, []byte("\n"))
		if !whole && int64(len(data)) == size {
			continue
		}
		l, err := parseLine(begin)
		if err == nil && l.Head == nil {
			err = fmt.Errorf("%w: it is not a head", journal.ErrCorrupt)
		}
		if err != nil {
			return journal.Head{}, fmt.Errorf("first line of %s: %w", segmentPath(dir, first), err)
		}
		return *l.Head, nil
	}
}

// scan calls do with each line of data, which is the part of the file at path that
// begins at offset. It returns the offset where the good lines end. After that comes
// nothing, or torn lines that were never acknowledged. A bad line before a good line
// that proves acknowledgement is ErrCorrupt (see provesLoss). scan also returns any
// error of do.
func scan(path string, data []byte, offset int64, do func(l *line, data []byte, offset int64) error) (end int64, err error) {
	end = offset
	for len(data) > 0 {
		text, rest, whole := bytes.Cut(data, []byte("\n"))
		l, err := parseLine(text)
		if !whole || err != nil {
			if provesLoss(rest) {
				return end, fmt.Errorf("%s, at byte %d: a line is damaged and those after it are not: restore the file, or cut it there to give up what follows: %w", path, end, err)
			}
			return end, nil
		}
		if err := do(l, text, end); err != nil {
			return end, fmt.Errorf("%s, at byte %d: %w", path, end, err)
		}
		end += int64(len(text)) + 1
		data = rest
	}
	return end, nil
}

// provesLoss reports whether data has a good line that was written after everything
// before it was on stable storage.
func provesLoss(data []byte) bool {
	for text := range bytes.Lines(data) {
		text, whole := bytes.CutSuffix(text, []byte("\n"))
		if l, err := parseLine(text); whole && err == nil && !l.Joined {
			return true
		}
	}
	return false
}

// replay applies a line of the newest segment to a space that is being read.
func (sp *space) replay(l *line, data []byte, offset int64) error {
	sp.tail, _ = sealed(data)
	last := sp.head.Last
	switch {
	case l.Head != nil:
		return sp.replayHead(l.Head, offset)
	case last.IsZero() || l.first() == last.Seq+1:
		sp.advance(l)
	case l.At.Seq > last.Seq:
		return fmt.Errorf("%w: after %s comes %s: lines are missing", journal.ErrCorrupt, last, l.At)
	case len(sp.events) > 0 && len(l.Events) > 0 && l.Events[0].Seq <= sp.events[len(sp.events)-1].seq:
		return fmt.Errorf("%w: after %s comes %s", journal.ErrCorrupt, last, l.At)
	}
	sp.index(l, offset, int64(len(data)))
	return nil
}

// replayHead applies the head that a segment begins with. The head of the first
// segment replaces the space's; any other must continue the segment before it.
func (sp *space) replayHead(h *journal.Head, offset int64) error {
	switch {
	case h.Space != sp.name && !(sp.head.Last.IsZero() && offset == 0):
		return fmt.Errorf("%w: this is the journal of %s, not of %s", journal.ErrCorrupt, h.Space, sp.name)
	case offset != 0:
		return fmt.Errorf("%w: a head is inside of a segment", journal.ErrCorrupt)
	case sp.head.Last.IsZero():
		sp.head = cloneHead(*h)
		sp.head.Space = sp.name
		sp.base = h.Last.Seq
	case h.Last != sp.head.Last:
		return fmt.Errorf("%w: the segment follows %s, but the one before it ends at %s", journal.ErrCorrupt, h.Last, sp.head.Last)
	}
	return nil
}

// addition is what a batch adds to one journal.
type addition struct {
	sp    *space
	lines []*line
	text  []byte  // of the lines
	sizes []int64 // of each, without the newline

	segment segment // where the lines go, with its size before them
	fresh   bool    // the segment is new
	created bool    // this addition created its file, so takeBack removes it
	head    int64   // bytes of the head before the first line
	refused error   // why the journal cannot be opened; it is as before
}

// add appends a line.
func (a *addition) add(l *line) {
	before := len(a.text)
	l.Joined = len(a.lines) > 0
	a.text = l.append(a.text)
	a.lines = append(a.lines, l)
	a.sizes = append(a.sizes, int64(len(a.text)-before-1))
}

// place chooses the segment for the lines.
func (a *addition) place(limit int64) {
	sp := a.sp
	if n := len(sp.segments); n > 0 && sp.segments[n-1].size < limit {
		a.segment = sp.segments[n-1]
		return
	}
	a.fresh = true
	a.segment = segment{first: max(sp.head.Last.Seq+1, a.lines[0].first())}
	head := (&line{Head: &sp.head}).append(nil)
	a.head = int64(len(head))
	a.text = append(head, a.text...)
}

// apply updates memory with the lines once they are on stable storage. It returns
// how many bytes of records their files lack. The caller holds the Store's mu.
func (a *addition) apply() (added int64) {
	sp := a.sp
	if a.fresh {
		sp.segments = append(slices.Clip(sp.segments), segment{first: a.segment.first, size: a.head})
	}
	seg := &sp.segments[len(sp.segments)-1]
	for i, l := range a.lines {
		sp.advance(l)
		sp.index(l, seg.size, a.sizes[i])
		seg.size += a.sizes[i] + 1
		added += sp.write(l)
	}
	tail := a.text[len(a.text)-1-int(a.sizes[len(a.sizes)-1]):]
	sp.tail = string(tail[len(crcPrefix) : len(crcPrefix)+8])
	sp.forked = false
	return added
}

// put writes the additions and syncs them. Those whose journal cannot be opened are
// refused. If the disk is full for one, put takes all of them back, and the journals are
// as before; if that fails, the store stops.
func (s *Store) put(adds []*addition) error {
	err := parallel(adds, s.putOne)
	if s.stop.Err() != nil {
		return err
	}
	for _, a := range adds {
		if a.refused != nil && a.fresh {
			s.disk.removeEmpty(s.dir, filepath.Join(a.sp.dir, "journal"))
		}
		if a.refused != nil || err == nil {
			continue
		}
		if e := s.takeBack(a); e != nil {
			return s.stop.Because(errors.Join(err, e))
		}
	}
	return err
}

// refuse refuses an addition because of err, before which nothing was written, unless
// the disk is full or has failed.
func (s *Store) refuse(a *addition, err error) error {
	if s.stop.Err() != nil || failstop.Full(err) {
		return err
	}
	a.refused = err
	return nil
}

func (s *Store) putOne(a *addition) error {
	path := segmentPath(a.sp.dir, a.segment.first)
	flag := os.O_WRONLY
	if a.fresh {
		flag |= os.O_CREATE | os.O_EXCL // an existing file holds commits that memory does not know
		if err := s.disk.mkdirAll(s.dir, filepath.Dir(path)); err != nil {
			return s.refuse(a, err)
		}
	}
	f, err := s.disk.OpenFile(path, flag)
	if err != nil {
		return s.refuse(a, err)
	}
	defer f.Close() // after the sync it has nothing to say
	if a.fresh {
		// Before the first line, so that a directory that cannot be opened leaves none.
		a.created = true
		if err := s.disk.syncDirs(upTo(s.dir, filepath.Dir(path))); err != nil {
			if s.stop.Err() == nil {
				s.disk.Remove(path)
			}
			return s.refuse(a, err)
		}
	}
	if _, err := f.WriteAt(a.text, a.segment.size); err != nil {
		return err
	}
	return f.Sync()
}

func (s *Store) takeBack(a *addition) error {
	path := segmentPath(a.sp.dir, a.segment.first)
	if a.fresh {
		if a.created {
			if err := s.disk.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return s.disk.syncDirs([]string{s.disk.removeEmpty(s.dir, filepath.Dir(path))})
	}
	f, err := s.disk.OpenFile(path, os.O_WRONLY)
	if err != nil {
		return err
	}
	err = f.Truncate(a.segment.size)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// readAt returns up to size bytes of a segment, fewer at its end.
func (s *Store) readAt(dir string, first uint64, offset, size int64) ([]byte, error) {
	f, err := s.disk.OpenFile(segmentPath(dir, first), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, size)
	n, err := f.ReadAt(data, offset)
	if err == io.EOF {
		err = nil
	}
	return data[:n], err
}
