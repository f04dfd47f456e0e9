package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/thole-dev/thole/journal"
)

// readRecords reads the files of all records and compares them with the journal.
func (r *recovery) readRecords() error {
	found := map[string]bool{}
	if err := r.walk("", found); err != nil {
		return err
	}
	for key, w := range r.wrote {
		switch {
		case found[key] || w.deleted && !r.unsure(w):
		case r.behind(w):
			r.replay = append(r.replay, w)
		default:
			r.hand = append(r.hand, change{Record: journal.Record{Key: key}})
		}
	}
	return nil
}

// behind reports whether a crash may be why the file of a record lacks the write.
func (r *recovery) behind(w wrote) bool { return w.version.Seq > r.flushed && !w.erased }

// unsure reports whether the next crash may undo the file of a record even though it
// is up to date, because nothing shows that it was synced.
func (r *recovery) unsure(w wrote) bool { return !r.looking && (r.met || r.note.Began) && r.behind(w) }

// walk reads the files of records in the directory rel below the space's, and adds
// their keys to found.
func (r *recovery) walk(rel string, found map[string]bool) error {
	root := filepath.Join(r.sp.dir, "records")
	entries, err := r.disk.ReadDir(filepath.Join(root, rel))
	if errors.Is(err, fs.ErrNotExist) && rel == "" {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(rel, e.Name())
		switch {
		case e.IsDir():
			err = r.walk(name, found)
		case strings.HasSuffix(name, recordExt) && e.Name()[0] != '.':
			err = r.recordFile(filepath.Join(root, name), name, found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recordFile compares the file of a record with the journal.
func (r *recovery) recordFile(path, name string, found map[string]bool) error {
	file, err := r.disk.stampAt(path)
	if err != nil {
		return err
	}
	data, err := r.disk.readFile(path)
	if err != nil {
		return err
	}
	rec, ours, bad := decodeRecord(data)
	key, ok := keyOf(name)
	if !ok {
		key = rec.Key // the file name has only a hash
	}
	if recordFile(key) != name {
		r.reportf("%s is not the name of a record: ignored; the file of key %q is %s", path, key, recordFile(key))
		return nil
	}
	ours = ours && rec.Key == key
	rec.Key = key
	found[key] = true
	r.seen(rec.Version.Epoch)
	w, written := r.wrote[key]
	older := rec.Version.Compare(w.version) < 0
	switch {
	case written && r.behind(w) && (bad != nil || ours && older), written && r.unsure(w) && ours && rec.Version == w.version:
		r.sp.put(&record{Record: journal.Record{Key: key}, file: file})
		r.replay = append(r.replay, w)
	case bad != nil:
		return fmt.Errorf("%s: %w", path, bad)
	case ours && written && !w.deleted && rec.Version == w.version, ours && !written && rec.Version.Seq <= r.sp.base:
		rec.Value = nil
		r.sp.put(&record{Record: rec, file: file})
	default:
		r.hand = append(r.hand, change{rec, file})
	}
	return nil
}
