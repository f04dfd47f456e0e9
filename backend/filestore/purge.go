package filestore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/thole-dev/thole/journal"
)

// Purge implements [journal.Backend]. Before follows [journal.Head.Trim]: it drops
// whole segments and the beginning of one. Streams and Events rewrite all segments
// without the purged content. The rewritten segments also hold no values of records,
// so that no replaced or deleted value remains; current values are in the files of
// records. Rewriting takes time in proportion to the space, and commits wait for it.
func (s *Store) Purge(ctx context.Context, name string, p journal.Purge) error {
	if err := s.purge(ctx, name, &p); err != nil {
		return fmt.Errorf("purge %s: %w", name, err)
	}
	return nil
}

func (s *Store) purge(ctx context.Context, name string, p *journal.Purge) error {
	for {
		if !p.All {
			// No record may depend on the journal for its value.
			if err := s.Flush(ctx); err != nil {
				return err
			}
		}
		if done, err := s.tryPurge(ctx, name, p); done || err != nil {
			return err
		}
	}
}

// tryPurge reports false if somebody wrote since the files of records were brought up
// to date, so that the caller must flush again.
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
		return true, nil // an earlier purge failed halfway; it is finished now
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

// drop removes a space with its content, also an unfinished import of it.
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

// rewriting is the state of a rewrite of a journal without the purged content.
type rewriting struct {
	purge   *journal.Purge
	oldest  journal.Position
	through uint64        // see [journal.Purge.Through]
	head    *journal.Head // of the current segment
	kept    []byte        // its lines that stay
}

// rewrite rewrites the segments that a purge changes. Until it is done, also after a
// crash, the space's note has Rewriting set.
func (s *Store) rewrite(sp *space, r *rewriting) error {
	rewritten := sp.note()
	rewritten.Era++
	rewritten.Rewriting = true
	err := s.tellOthers(func() []note {
		s.forget(sp) // whatever happens next, the space is read again
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
			break // later segments do not change
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

// cut returns the index of the segment that holds, or would hold, the first position
// that is kept.
func (r *rewriting) cut(segments []segment) int {
	i := len(segments) - 1
	for i > 0 && segments[i].first > r.oldest.Seq {
		i--
	}
	return i
}

// rewriteSegment replaces a segment by one without the purged content.
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

// line appends what stays of a line to kept.
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
		return // the head covers its position
	}
	r.kept = l.append(r.kept)
}

// skip advances the head over a dropped line. The head already covers an imported one.
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

// redact removes everything from the purged events that may say something about a
// person. The line's actor and cause stay if another of its events needs them.
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

// dropSegments removes the given segments.
func (s *Store) dropSegments(sp *space, segments []segment) error {
	for _, seg := range segments {
		if err := s.disk.Remove(segmentPath(sp.dir, seg.first)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return s.disk.syncDirs([]string{filepath.Join(sp.dir, "journal")})
}
