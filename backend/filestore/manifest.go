package filestore

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/thole-dev/thole/journal"
)

// The manifest, DIR/.thole/manifest, holds notes by which processes tell each other
// what they did, and by which the store recognizes its own files when it is opened.
// Its lines have a CRC like those of a journal. The first line identifies the manifest;
// each other line is a note about one space. The last note of a space counts:
//
//	{"crc":"…","store":"9f86d081884c7d65","generation":1}
//	{"crc":"…","space":"project:shop","segment":1,"size":4711,"tail":"1b2c3d4e","last":"0001…-…42",…}
//
// One stat of the manifest shows a process that no other process did anything. A note
// is appended once what it says is on stable storage. Notes themselves are synced only
// when a space is created, purged or rewritten. Any other note that is lost, by a crash
// or a failed write, is recovered from the journal; see due.go.
type manifest struct {
	store      string
	generation int
	file       File
	offset     int64 // the end of what was read
}

// maxManifestBytes is the size above which the manifest is rewritten.
const maxManifestBytes = 4 << 20

// note is what is known about a space without reading its files.
type note struct {
	Space     string           `json:"space"`
	Segment   uint64           `json:"segment,omitempty"`   // the newest one
	Size      int64            `json:"size,omitempty"`      // of that segment, on stable storage
	Tail      string           `json:"tail,omitempty"`      // CRC of its last line
	Last      journal.Position `json:"last,omitzero"`       // zero: only the space's existence is known
	Flushed   uint64           `json:"flushed,omitempty"`   // the files of records hold the commits up to here
	Due       time.Time        `json:"due,omitzero"`        // no record expires before; zero: none does
	Era       int              `json:"era,omitempty"`       // changes when the past of the space changes
	Rewriting bool             `json:"rewriting,omitempty"` // the journal is being rewritten
	Began     bool             `json:"began,omitempty"`     // it is being created, or a crash interrupted that
	Gone      bool             `json:"gone,omitempty"`
}

type manifestHeader struct {
	Store      string `json:"store"`
	Generation int    `json:"generation"`
}

func (m *manifest) close() {
	if m.file != nil {
		m.file.Close()
		m.file = nil
	}
}

// openManifest reads the manifest, or creates one if it is missing or unreadable. The
// caller holds the lock.
func (s *Store) openManifest() error {
	path := s.private("manifest")
	ok, err := s.disk.exists(path)
	if err != nil {
		return err
	}
	if ok {
		err = s.readManifest()
		if !errors.Is(err, journal.ErrCorrupt) {
			return err
		}
		s.reportf("the notes in %s cannot be read and are made anew", path)
		s.manifest.close()
	}
	var id [8]byte
	rand.Read(id[:])
	s.manifest = manifest{store: hex.EncodeToString(id[:])}
	return s.rewriteManifest()
}

// refresh reads what other processes noted since the last call.
func (s *Store) refresh() error {
	now, err := s.disk.stampAt(s.private("manifest"))
	if err != nil {
		return err
	}
	s.mu.RLock()
	same := s.seen == now
	s.mu.RUnlock()
	if same {
		return nil
	}
	s.catching.Lock()
	defer s.catching.Unlock()
	return s.readManifest()
}

// readManifest reads the new notes in the manifest. The caller holds catching, or no
// other goroutine uses the store yet.
func (s *Store) readManifest() error {
	select {
	case <-s.ended:
		return journal.ErrClosed
	default:
	}
	f, err := s.disk.OpenFile(s.private("manifest"), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("file store %s: %s was removed while the store was open; open the store again", s.dir, s.private())
	}
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h, begin, err := readHeader(f)
	if err != nil {
		return err
	}
	m := &s.manifest
	switch {
	case m.store != "" && h.Store != m.store:
		return fmt.Errorf("file store %s: %s was replaced while the store was open; open the store again", s.dir, s.private())
	case m.file == nil || h.Generation != m.generation:
		m.close()
		*m = manifest{store: h.Store, generation: h.Generation, file: f, offset: begin}
		keep = true
	}
	data := make([]byte, max(0, info.Size()-m.offset))
	n, err := f.ReadAt(data, m.offset)
	if err != nil && err != io.EOF {
		return err
	}
	data = data[:n]
	whole := bytes.LastIndexByte(data, '\n') + 1
	m.offset += int64(whole)
	var notes []note
	for line := range bytes.Lines(data[:whole]) {
		var n note
		line = bytes.TrimSuffix(line, []byte("\n"))
		if _, ok := sealed(line); ok && json.Unmarshal(line, &n) == nil && n.Space != "" {
			notes = append(notes, n)
		} // otherwise a crash tore it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = stampOf(info)
	for _, n := range notes {
		s.applyNote(n)
	}
	return nil
}

func readHeader(f File) (h manifestHeader, size int64, err error) {
	b := make([]byte, 256)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return h, 0, err
	}
	line, _, ok := bytes.Cut(b[:n], []byte("\n"))
	if _, good := sealed(line); !ok || !good || json.Unmarshal(line, &h) != nil {
		return h, 0, fmt.Errorf("%w: the manifest has no header", journal.ErrCorrupt)
	}
	return h, int64(len(line) + 1), nil
}

// applyNote applies a note of another process, which may have died before its next one: a
// space whose note was incomplete still counts as due. The caller holds mu.
func (s *Store) applyNote(n note) {
	s.news++
	s.setNote(n)
	if n.Gone {
		delete(s.incomplete, n.Space)
	}
	sp := s.spaces[n.Space]
	switch {
	case sp == nil:
	case n.Gone || n.Era != sp.era:
		s.forget(sp)
	case n.Flushed > sp.flushed:
		s.flushedBy(sp, n.Flushed)
	}
}

// setNote records the newest note of a space. The caller holds mu.
func (s *Store) setNote(n note) {
	s.notes.Set(n.Space, n)
	if n.Began {
		s.begun[n.Space] = true
	} else {
		delete(s.begun, n.Space)
	}
}

// tellOthers calls change and appends the notes that it returns to the manifest. It
// holds mu during both, so that this process never sees a change before others can.
// The caller holds the lock. What the notes say is already on stable storage, so if
// they cannot be written, other processes find it out when they take the lock or on
// patrol.
func (s *Store) tellOthers(change func() []note) error {
	s.catching.Lock()
	defer s.catching.Unlock()
	if err := s.changeAndTell(change); err != nil {
		return err
	}
	if s.manifest.offset > maxManifestBytes {
		if err := s.rewriteManifest(); err != nil {
			s.log.Warn("file store: the notes could not be written anew; will try again", "dir", s.dir, "error", err)
		}
	}
	return nil
}

// tellSoon is tellOthers for changes that are valid even if other processes learn of
// them later. It logs an error.
func (s *Store) tellSoon(change func() []note) {
	if err := s.tellOthers(change); err != nil {
		s.log.Warn("file store: other processes hear later of what was done", "dir", s.dir, "error", err)
	}
}

func (s *Store) changeAndTell(change func() []note) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	notes := change()
	for _, n := range notes {
		s.setNote(n)
		delete(s.incomplete, n.Space)
	}
	var b []byte
	var err error
	for _, n := range notes {
		if b, err = appendSealed(b, n); err != nil {
			return err // others find out when they take the lock
		}
	}
	m := &s.manifest
	written, err := m.file.WriteAt(b, m.offset)
	if err != nil {
		// Others may have read the complete lines, so these stay. The rest of a line
		// counts for nobody and is overwritten.
		m.offset += int64(bytes.LastIndexByte(b[:written], '\n') + 1)
		s.seen = stamp{}
		return err
	}
	m.offset += int64(len(b))
	info, err := m.file.Stat()
	if err != nil {
		s.seen = stamp{}
		return nil
	}
	s.seen = stampOf(info)
	return nil
}

// appendSealed appends v as a JSON line with its CRC.
func appendSealed(b []byte, v any) ([]byte, error) {
	start := len(b)
	data, err := json.Marshal(v)
	if err != nil {
		return b[:start], fmt.Errorf("encode a line of the manifest: %w", err)
	}
	b = append(b, crcPrefix+`00000000",`...)
	b = append(b, data[1:]...)
	seal(b[start:])
	return append(b, '\n'), nil
}

// syncManifest makes the notes durable.
func (s *Store) syncManifest() error { return s.manifest.file.Sync() }

// rewriteManifest replaces the manifest by one with a single note for each space.
func (s *Store) rewriteManifest() error {
	m := &s.manifest
	b, err := appendSealed(nil, manifestHeader{m.store, m.generation + 1})
	s.mu.RLock()
	s.notes.Scan(func(_ string, n note) bool {
		if err == nil && (!n.Gone || n.Era > 0) {
			b, err = appendSealed(b, n)
		}
		return err == nil
	})
	s.mu.RUnlock()
	if err != nil {
		return err
	}
	path := s.private("manifest")
	if err := s.replaceFile(path, b); err != nil {
		return err
	}
	f, err := s.disk.OpenFile(path, os.O_RDWR)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	m.close()
	*m = manifest{store: m.store, generation: m.generation + 1, file: f, offset: int64(len(b))}
	s.mu.Lock()
	s.seen = stampOf(info)
	s.mu.Unlock()
	return nil
}
