package filestore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/thole-dev/thole/journal"
)

// Purge implements [journal.Backend]. Before follows [journal.Head.Trim] and drops
// whole segments and the beginning of one. The others erase: every segment that
// holds something of what goes is written anew without it, and so that no value
// of a record that was replaced or deleted stays behind either, without values;
// those are in the files of records. That takes time in proportion to the space,
// and commits wait meanwhile.
func (s *Store) Purge(ctx context.Context, name string, p journal.Purge) error {
	if err := s.purge(ctx, name, &p); err != nil {
		return fmt.Errorf("purge %s: %w", name, err)
	}
	return nil
}

func (s *Store) purge(ctx context.Context, name string, p *journal.Purge) error {
	for {
		if !p.All {
			// The journal must not be needed for the files of records.
			if err := s.Flush(ctx); err != nil {
				return err
			}
		}
		if done, err := s.tryPurge(ctx, name, p); done || err != nil {
			return err
		}
	}
}

// tryPurge reports false if another process wrote since the files of records
// were brought up to date.
func (s *Store) tryPurge(ctx context.Context, name string, p *journal.Purge) (bool, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	owed, err := s.discarded(name)
	if err == nil {
		err = s.empty()
	}
	if err != nil {
		return false, s.explain(err)
	}
	sp, err := s.existing(name)
	switch {
	case err != nil:
		return false, s.explain(err)
	case sp == nil && owed && p.All:
		return true, nil // an earlier purge, that failed, began it
	case sp == nil:
		return false, journal.ErrNotFound
	case p.All:
		return true, s.explain(s.drop(sp))
	}
	s.mu.RLock()
	behind := len(sp.dirty) > 0
	head := cloneHead(sp.head)
	s.mu.RUnlock()
	if behind {
		return false, nil
	}
	through := p.Through(head)
	if len(p.Streams) > 0 && through == 0 {
		return true, nil
	}
	if !p.Before.IsZero() {
		if err := head.Trim(p.Before); err != nil || head.Oldest == sp.head.Oldest {
			return true, err
		}
	}
	return true, s.explain(s.rewrite(sp, &rewriting{purge: p, oldest: head.Oldest, through: through}))
}

// drop removes a space with all that it holds.
func (s *Store) drop(sp *space) error {
	if err := s.discard(sp.name, s.stagedDir(sp.name)); err != nil {
		return err
	}
	if err := s.discard(sp.name, sp.dir); err != nil {
		return err
	}
	err := s.tellOthers(func() []note {
		s.forget(sp)
		return []note{{Space: sp.name, Era: sp.era + 1, Gone: true}}
	})
	if err == nil {
		err = s.syncManifest()
	}
	if err == nil {
		err = s.empty()
	}
	return err
}

// rewriting is the writing anew of the journal of a space without what is purged.
type rewriting struct {
	purge   *journal.Purge
	oldest  journal.Position
	through uint64        // see [journal.Purge.Through]
	head    *journal.Head // of the segment at hand
	kept    []byte
}

// rewrite writes the segments anew that change. Meanwhile, and after a crash, the
// note says so.
func (s *Store) rewrite(sp *space, r *rewriting) error {
	rewritten := sp.note()
	rewritten.Era++
	rewritten.Rewriting = true
	err := s.tellOthers(func() []note {
		s.forget(sp) // whatever happens, it is read anew
		return []note{rewritten}
	})
	if err == nil {
		err = s.syncManifest()
	}
	if err != nil {
		return err
	}
	segments := sp.segments
	if r.trims() {
		segments = sp.segments[r.cut(segments):]
	}
	for i, seg := range segments {
		if err := s.rewriteSegment(sp, seg, r); err != nil {
			return err
		}
		if r.trims() && i == 0 {
			break // the later ones stay as they are
		}
	}
	if r.trims() {
		if err := s.dropSegments(sp, sp.segments[:len(sp.segments)-len(segments)]); err != nil {
			return err
		}
	}
	_, err = s.load(sp.name)
	return err
}

func (r *rewriting) trims() bool { return !r.purge.Before.IsZero() }

// cut returns the index of the segment that holds the first event that is kept,
// or would.
func (r *rewriting) cut(segments []segment) int {
	i := len(segments) - 1
	for i > 0 && segments[i].first > r.oldest.Seq {
		i--
	}
	return i
}

// rewriteSegment puts a segment in the place of another, without what is purged.
func (s *Store) rewriteSegment(sp *space, seg segment, r *rewriting) error {
	path := segmentPath(sp.dir, seg.first)
	data, err := s.disk.readFile(path)
	if err != nil {
		return err
	}
	r.kept = nil
	end, err := scan(path, data, 0, func(l *line, _ []byte, _ int64) error {
		r.line(l)
		return nil
	})
	if err == nil && end != seg.size {
		err = fmt.Errorf("%w: %s has %d bytes of good lines, not %d", journal.ErrCorrupt, path, end, seg.size)
	}
	if err != nil {
		return err
	}
	text := append((&line{Head: r.head}).append(nil), r.kept...)
	tmp := s.private("tmp", filepath.Base(path))
	if _, err := s.disk.writeFile(tmp, text, true); err != nil {
		return err
	}
	if err := s.disk.Rename(tmp, path); err != nil {
		return err
	}
	return s.disk.syncDirs([]string{filepath.Dir(path)})
}

// line keeps what is to be kept of a line.
func (r *rewriting) line(l *line) {
	if l.Head != nil {
		head := cloneHead(*l.Head)
		r.head = &head
		if r.trims() {
			r.head.Oldest = r.oldest
		}
		return
	}
	if r.trims() && l.At.Seq < r.oldest.Seq {
		r.skip(l)
		return
	}
	l.Joined = false
	l.Events = slices.DeleteFunc(l.Events, func(e lineEvent) bool {
		return r.trims() && e.Seq < r.oldest.Seq || e.Seq <= r.through && slices.Contains(r.purge.Streams, e.Stream)
	})
	r.redact(l)
	for i := range l.Writes {
		w := &l.Writes[i]
		if !w.Deleted && !r.trims() {
			w.Value, w.Erased = nil, true
		}
	}
	if imported := l.At.Seq <= r.head.Last.Seq; imported && len(l.Events) == 0 {
		return // it is in the head
	}
	r.kept = l.append(r.kept)
}

// skip takes a line that is dropped into the head, unless it is there already
// because it was imported.
func (r *rewriting) skip(l *line) {
	if l.At.Seq <= r.head.Last.Seq {
		return
	}
	sp := space{head: *r.head}
	oldest := sp.head.Oldest
	sp.advance(l)
	sp.head.Oldest = oldest
	r.head = &sp.head
}

// redact takes out of the events that are purged all that may say something
// about a person. What they share with others of the line stays for those.
func (r *rewriting) redact(l *line) {
	left := 0
	for i := range l.Events {
		e := &l.Events[i]
		at := journal.Position{Epoch: l.At.Epoch, Seq: e.Seq} // all of a line are in one epoch
		if slices.Contains(r.purge.Events, at) {
			e.Redacted, e.Subject, e.Refs, e.Data = true, "", nil, nil
		}
		if !e.Redacted {
			left++
		}
	}
	if left == 0 && len(l.Events) > 0 {
		l.Actor, l.Cause = "", ""
	}
}

// dropSegments removes segments that hold nothing that is kept.
func (s *Store) dropSegments(sp *space, segments []segment) error {
	for _, seg := range segments {
		if err := s.disk.Remove(segmentPath(sp.dir, seg.first)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return s.disk.syncDirs([]string{filepath.Join(sp.dir, "journal")})
}
