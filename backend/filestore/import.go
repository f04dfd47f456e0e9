package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/thole-dev/thole/journal"
)

// Load implements [journal.Backend]. Until the chunk with Done, the import is a
// separate directory under DIR/.thole/load, in the layout of a space; the last chunk
// renames it to the directory of the space. Each chunk is on stable storage when Load
// returns, so that an import can go on after a crash. An existing space is ErrExists.
func (s *Store) Load(ctx context.Context, name string, c journal.Chunk) error {
	if err := s.importChunk(ctx, name, &c); err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	return nil
}

func (s *Store) importChunk(ctx context.Context, name string, c *journal.Chunk) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if sp, err := s.existing(name); err != nil {
		return s.explain(err)
	} else if sp != nil {
		return journal.ErrExists
	}
	if err := c.Validate(); err != nil {
		return err
	}
	sp, err := s.staged(name, c.Head)
	if err == nil {
		err = s.stageEvents(sp, c.Events)
	}
	if err == nil {
		err = s.stageRecords(sp, c.Records)
	}
	if err == nil && c.Done {
		err = s.unveil(sp)
	}
	return s.explain(err)
}

// existing returns the current state of a space, nil if it does not exist.
func (s *Store) existing(name string) (*space, error) {
	sp, err := s.current(name)
	if err != nil || len(sp.segments) == 0 {
		return nil, err
	}
	return sp, nil
}

// stagedDir returns the directory of a space while it is being imported.
func (s *Store) stagedDir(name string) string { return s.private("load", spaceDir(name)) }

// staged returns the part of a space that was imported so far. It starts a new import
// if the head differs.
func (s *Store) staged(name string, head journal.Head) (*space, error) {
	sp := newSpace(name, s.stagedDir(name))
	head.Space = name
	firsts, err := s.segments(sp.dir)
	if err != nil {
		return nil, err
	}
	if len(firsts) > 0 {
		had, err := s.readHead(sp.dir, firsts[0])
		if err == nil && had.Oldest == head.Oldest && had.Last == head.Last && slices.Equal(had.Epochs, head.Epochs) {
			if err := s.readStaged(sp, firsts); err != nil || len(sp.segments) > 0 {
				return sp, err
			}
		}
	}
	delete(s.imports, name)
	if err := s.disk.removeAll(sp.dir); err != nil {
		return nil, err
	}
	if err := s.disk.mkdirAll(s.dir, filepath.Join(sp.dir, "journal")); err != nil {
		return nil, err
	}
	first := head.Oldest.Seq
	text := (&line{Head: &head}).append(nil)
	if _, err := s.disk.writeFile(segmentPath(sp.dir, first), text, false); err != nil {
		return nil, err
	}
	sp.head = head
	sp.segments = []segment{{first, int64(len(text))}}
	return sp, nil
}

// readStaged reads how far the import has come; only the newest segment says. What a
// crash left of a chunk that was not taken is cut off by the next one.
func (s *Store) readStaged(sp *space, firsts []uint64) error {
	for _, first := range firsts {
		sp.segments = append(sp.segments, segment{first: first})
	}
	for len(sp.segments) > 0 {
		newest := &sp.segments[len(sp.segments)-1]
		path := segmentPath(sp.dir, newest.first)
		data, err := s.disk.readFile(path)
		if err != nil {
			return err
		}
		newest.size, err = scan(path, data, 0, sp.replay)
		if newest.size > 0 {
			if err == nil || errors.Is(err, journal.ErrCorrupt) { // torn, since what was taken is durable
				err = s.hardenStaged(sp.name, sp.dir, *newest)
			}
			return err
		}
		// Not even its head was written.
		if err := s.disk.Remove(path); err != nil {
			return err
		}
		sp.segments = sp.segments[:len(sp.segments)-1]
	}
	return nil
}

// imported is the newest segment of an import as this Store made it durable.
type imported struct {
	first uint64
	file  stamp
}

// hardenStaged writes the newest segment again unless it is as this Store made it
// durable: another one may have added to it, or started the import again in a new file,
// and may have failed to sync that. See harden.
func (s *Store) hardenStaged(name, dir string, newest segment) error {
	file, err := s.disk.stampAt(segmentPath(dir, newest.first))
	if err != nil || s.imports[name] == (imported{newest.first, file}) {
		return err
	}
	return s.writeAgain(dir, newest, 0)
}

// stageEvents appends the events behind the newest imported one: events come in
// order, so the import already has all before it.
func (s *Store) stageEvents(sp *space, events []journal.Event) error {
	n := &sp.segments[len(sp.segments)-1]
	last := uint64(0)
	if len(sp.events) > 0 {
		last = sp.events[len(sp.events)-1].seq
	} else if len(sp.segments) > 1 {
		last = n.first - 1
	}
	var text []byte
	for i := range events {
		e := &events[i]
		if e.Position.Seq <= last {
			continue
		}
		last = e.Position.Seq
		if n.size+int64(len(text)) > s.opts.SegmentBytes {
			if err := s.stageText(sp, text); err != nil {
				return err
			}
			head := sp.head
			text = (&line{Head: &head}).append(nil)
			sp.segments = append(sp.segments, segment{first: last})
			n = &sp.segments[len(sp.segments)-1]
		}
		text = loadedLine(e).append(text)
	}
	return s.stageText(sp, text)
}

// stageText appends lines to the newest segment and makes it durable, so that no
// segment follows one that a crash tears.
func (s *Store) stageText(sp *space, text []byte) error {
	n := &sp.segments[len(sp.segments)-1]
	path := segmentPath(sp.dir, n.first)
	f, err := s.disk.OpenFile(path, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, n.size)
	if err == nil {
		err = f.Truncate(n.size + int64(len(text))) // a crash may have left more
	}
	if err == nil {
		err = f.Sync()
	}
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = s.disk.syncDirs(upTo(s.dir, filepath.Dir(path)))
	}
	n.size += int64(len(text))
	if err == nil {
		s.imports[sp.name] = imported{n.first, stampOf(info)}
	}
	return err
}

func (s *Store) stageRecords(sp *space, records []journal.Record) error {
	path := func(r journal.Record) string { return filepath.Join(sp.dir, "records", recordFile(r.Key)) }
	err := parallel(records, func(r journal.Record) error {
		r.Updated, r.Expires = micro(r.Updated), micro(r.Expires)
		if err := s.disk.mkdirAll(s.dir, filepath.Dir(path(r))); err != nil {
			return err
		}
		_, err := s.disk.writeFile(path(r), encodeRecord(&r), true)
		return err
	})
	if err != nil {
		return err
	}
	var dirs []string
	for _, r := range records {
		dirs = append(dirs, upTo(sp.dir, filepath.Dir(path(r)))...)
	}
	return s.disk.syncDirs(dirs)
}

// unveil makes a complete import the space.
func (s *Store) unveil(sp *space) error {
	dir := filepath.Join(s.dir, spaceDir(sp.name))
	if err := s.disk.mkdirAll(s.dir, filepath.Dir(dir)); err != nil {
		return err
	}
	parents := upTo(s.dir, filepath.Dir(dir))
	if err := s.disk.syncDirs(parents); err != nil { // else a crash may move the import to where nothing leads
		return err
	}
	s.mu.RLock()
	n, _ := s.notes.Get(sp.name)
	s.mu.RUnlock()
	sp.era = n.Era + 1
	if err := s.announce([]*space{sp}); err != nil {
		return err
	}
	if err := s.disk.Rename(sp.dir, dir); err != nil {
		return err
	}
	if err := s.disk.syncDirs(append(parents, filepath.Dir(sp.dir))); err != nil {
		return err
	}
	delete(s.imports, sp.name)
	made, err := s.load(sp.name)
	if err == nil && made == nil {
		err = fmt.Errorf("%w: %s: the import is gone", journal.ErrCorrupt, dir)
	}
	return err
}
