package filestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/thole-dev/thole/journal"
)

// recovery is the state of reading a space from its files. It finishes what a crash
// left undone and finds what a person changed.
type recovery struct {
	*Store
	sp   *space
	note note // the newest one of the space

	wrote      map[string]wrote // the newest write of each key in the journal
	flushed    uint64           // the files of records held the commits up to here
	met        bool             // the journal has the line that the note names
	replaced   bool             // the journal is not the one that the note describes
	generation int              // the highest one of an epoch
	replay     []wrote          // writes that the files of records lack
	hand       []change         // records that a person changed
	reasons    []string         // for an adoption
	looking    bool             // for Check: files count as they are, durable or not
}

// wrote is the place of a write in the journal.
type wrote struct {
	key     string
	version journal.Position
	place   entry
	item    int // index among the writes of the line
	deleted bool
	erased  bool
}

// change is a record as a person changed it; a nil Value means deleted.
type change struct {
	journal.Record
	file stamp
}

// load reads a space from its files and makes it the one in memory. It returns nil if
// the space does not exist. The caller holds the lock.
func (s *Store) load(name string) (*space, error) {
	s.mu.RLock()
	n, known := s.notes.Get(name)
	s.mu.RUnlock()
	if !known || n.Gone {
		return nil, nil
	}
	sp := newSpace(name, filepath.Join(s.dir, spaceDir(name)))
	sp.era = n.Era
	r := &recovery{Store: s, sp: sp, note: n, wrote: map[string]wrote{}}
	if err := r.readJournal(); err != nil {
		return nil, err
	}
	if err := r.readRecords(); err != nil {
		return nil, err
	}
	if len(sp.segments) == 0 && sp.records.Len() == 0 && len(r.hand) == 0 {
		return nil, s.noteFoundGone(n)
	}
	if err := r.apply(); err != nil {
		return nil, err
	}
	return sp, nil
}

// noteFoundGone notes that a space has no files any more. It makes the removal durable
// first, since whoever removed the files may not have, and a space that was reported as
// removed must not return.
func (s *Store) noteFoundGone(n note) error {
	if err := s.disk.syncDirs(upTo(s.dir, filepath.Join(s.dir, spaceDir(n.Space), "journal"))); err != nil {
		return err
	}
	if !n.Last.IsZero() {
		s.reportf("space %s is gone: its files were removed by hand, or by a purge that did not complete", n.Space)
	}
	return s.tellOthers(func() []note {
		if sp := s.spaces[n.Space]; sp != nil {
			s.forget(sp)
		}
		return []note{{Space: n.Space, Era: n.Era + 1, Gone: true}}
	})
}

// readJournal replays the journal, cuts off torn lines and determines whether it is
// still the journal that the note describes.
func (r *recovery) readJournal() error {
	firsts, err := r.segments(r.sp.dir)
	if err == nil {
		firsts, err = r.finishTrim(firsts)
	}
	if err != nil {
		return err
	}
	for i, first := range firsts {
		if err := r.readSegment(first, i == len(firsts)-1); err != nil {
			return err
		}
	}
	n, last := r.note, r.sp.head.Last
	switch {
	case n.Began:
	case n.Last.IsZero():
		if r.sp.forked = len(firsts) > 0; r.sp.forked { // the original may continue elsewhere
			r.reportf("space %s was put here by hand: the next commit to it begins an epoch", r.sp.name)
		}
	case r.met:
		r.flushed = n.Flushed
	default:
		r.replaced = true
		r.reasons = append(r.reasons, fmt.Sprintf("the journal ended at %s and now ends at %s", n.Last, show(last)))
	}
	return r.harden()
}

// finishTrim removes the segments before the one that a trim rewrote, if a crash left
// them.
func (r *recovery) finishTrim(firsts []uint64) ([]uint64, error) {
	if !r.note.Rewriting {
		return firsts, nil
	}
	begin, oldest := 0, uint64(0)
	for i, first := range firsts {
		head, err := r.readHead(r.sp.dir, first)
		if i == len(firsts)-1 && errors.Is(err, journal.ErrCorrupt) {
			break // a crash tore the newest one, so a trim did not write it
		}
		if err != nil {
			return nil, err
		}
		if i == 0 {
			oldest = max(first, head.Oldest.Seq) // a new space has no oldest yet
		} else if head.Oldest.Seq > oldest {
			begin, oldest = i, head.Oldest.Seq
		}
	}
	for _, first := range firsts[:begin] {
		if err := r.disk.Remove(segmentPath(r.sp.dir, first)); err != nil {
			return nil, err
		}
	}
	if begin == 0 {
		return firsts, nil
	}
	return firsts[begin:], r.disk.syncDirs([]string{filepath.Join(r.sp.dir, "journal")})
}

func show(p journal.Position) string {
	if p.IsZero() {
		return "nothing"
	}
	return p.String()
}

func (r *recovery) readSegment(first uint64, newest bool) error {
	sp := r.sp
	path := segmentPath(sp.dir, first)
	data, err := r.disk.readFile(path)
	if err != nil {
		return err
	}
	sp.segments = append(sp.segments, segment{first: first})
	end, err := scan(path, data, 0, r.line)
	if err != nil {
		return err
	}
	sp.segments[len(sp.segments)-1].size = end
	empty := end == 0 || newest && sp.head.Last.IsZero() // a failed first commit left only a head
	if !empty && end == int64(len(data)) {
		return nil
	}
	n := &r.note
	acknowledged := !n.Rewriting && !n.Last.IsZero() && n.Segment == first && end < n.Size && int64(len(data)) >= n.Size
	if !newest || acknowledged {
		return fmt.Errorf("%w: %s, at byte %d: a line that was acknowledged is damaged: restore the file, or cut it there to give up what follows", journal.ErrCorrupt, path, end)
	}
	r.reportf("%s: cut %d bytes that a crash left after byte %d", path, int64(len(data))-end, end)
	if empty {
		sp.segments = sp.segments[:len(sp.segments)-1]
		if err := r.disk.Remove(path); err != nil {
			return err
		}
		return r.disk.syncDirs([]string{filepath.Dir(path)})
	}
	return nil // harden cuts the file
}

// line applies a line of the newest segment.
func (r *recovery) line(l *line, data []byte, offset int64) error {
	if err := r.sp.replay(l, data, offset); err != nil {
		return err
	}
	n := len(r.sp.segments) - 1
	switch {
	case r.note.Rewriting: // its size is not known
		r.met = r.met || r.sp.head.Last == r.note.Last
	case r.sp.segments[n].first == r.note.Segment && offset+int64(len(data))+1 == r.note.Size:
		r.met = r.sp.tail == r.note.Tail
	}
	for i := range r.sp.head.Epochs {
		r.seen(r.sp.head.Epochs[i].Name)
	}
	for i := range l.Writes {
		w := &l.Writes[i]
		r.wrote[w.Key] = wrote{
			key: w.Key, version: l.At, item: i, deleted: w.Deleted, erased: w.Erased,
			place: entry{l.At.Seq, uint32(n), uint32(offset), uint32(len(data))},
		}
	}
	return nil
}

// seen keeps the highest generation of the epochs that it is called with.
func (r *recovery) seen(epoch string) { r.generation = max(r.generation, generationOf(epoch)) }

// generationOf returns the generation in the name of an epoch, 0 if there is none.
func generationOf(epoch string) int {
	n, _ := strconv.Atoi(epoch[:min(4, len(epoch))])
	return n
}

// harden makes durable what was read. It writes lines again that no note covers: their
// writer died or failed to sync them, and after a failed sync, another one may succeed
// without writing anything.
func (r *recovery) harden() error {
	segments := r.sp.segments
	for i, seg := range segments {
		from := int64(0)
		switch {
		case r.note.Last.IsZero() && !r.note.Began, seg.first < r.note.Segment:
			from = seg.size
		case seg.first == r.note.Segment && !r.note.Rewriting:
			from = min(r.note.Size, seg.size)
		}
		if from == seg.size && i < len(segments)-1 {
			continue
		}
		if err := r.writeAgain(r.sp.dir, seg, from); err != nil {
			return err
		}
	}
	if len(segments) == 0 {
		return nil
	}
	return r.disk.syncDirs(upTo(r.dir, filepath.Join(r.sp.dir, "journal")))
}

// writeAgain writes the part of a segment from an offset on again, cuts off what follows
// and syncs it.
func (s *Store) writeAgain(dir string, seg segment, from int64) error {
	data, err := s.readAt(dir, seg.first, from, seg.size-from)
	if err != nil {
		return err
	}
	f, err := s.disk.OpenFile(segmentPath(dir, seg.first), os.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	if len(data) > 0 {
		if _, err := f.WriteAt(data, from); err != nil {
			return err
		}
	}
	if err := f.Truncate(seg.size); err != nil {
		return err
	}
	return f.Sync()
}

// apply finishes what a crash left undone, adopts what a person did, and makes
// the space the one in memory.
func (r *recovery) apply() error {
	sp := r.sp
	added := int64(0)
	for _, w := range r.replay {
		text, err := r.readAt(sp.dir, sp.segments[w.place.segment].first, int64(w.place.offset), int64(w.place.size))
		if err != nil {
			return err
		}
		l, err := parseLine(text)
		if err != nil {
			return err
		}
		l.Writes = l.Writes[w.item : w.item+1]
		added += sp.write(l)
	}
	for _, c := range r.hand { // put first, so that the stamp of its file is known
		sp.put(&record{Record: journal.Record{Key: c.Key}, file: c.file})
	}
	sp.flushed = r.flushed
	var adopted *addition
	if r.replaced || len(r.hand) > 0 {
		var err error
		if adopted, err = r.adopt(); err != nil {
			return err
		}
	} else if len(r.replay) == 0 && !sp.head.Last.IsZero() {
		sp.flushed = sp.head.Last.Seq
	}
	if r.replaced {
		sp.era++
	}
	r.tellSoon(func() []note {
		if adopted != nil {
			added += adopted.apply()
		}
		if old := r.spaces[sp.name]; old != nil {
			r.forget(old)
		}
		r.spaces[sp.name] = sp
		r.Store.dirty += added
		r.signalDirty()
		return []note{sp.note()}
	})
	return nil
}
