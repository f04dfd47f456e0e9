package sandbox

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/clip"
)

// ListOptions change [Sandbox.List]. The zero value is the default.
type ListOptions struct {
	Limit int      // entries at most; zero means 1,000
	Depth int      // levels below the listed directory; zero means all
	Skip  []string // names of directories that are listed but not entered; nil means .git and node_modules
}

// Entry is a file or a directory in a listing.
type Entry struct {
	Path string `json:"path"`
	Dir  bool   `json:"dir,omitempty"`
	Link bool   `json:"link,omitempty"` // a symbolic link; it is not followed
	Size int64  `json:"size,omitempty"` // of a regular file, in bytes
}

// List returns what is below the directory dir ("." for all), in the order of
// a walk: each directory before its content, names in byte order. Files that
// [Sandbox.Replace] is at work with, and what Options.Deny closes, are left out. more tells that the limit
// cut the list. Errors: thole.ErrNotFound, thole.ErrInvalid.
func (s *Sandbox) List(dir string, o *ListOptions) (list []Entry, more bool, err error) {
	opts := ListOptions{}
	if o != nil {
		opts = *o
	}
	if opts.Limit <= 0 {
		opts.Limit = 1000
	}
	if opts.Skip == nil {
		opts.Skip = []string{".git", "node_modules"}
	}
	if dir, err = s.allowed(dir); err != nil {
		return nil, false, err
	}
	err = fs.WalkDir(s.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == dir:
			return err
		case name == dir && !d.IsDir():
			return fmt.Errorf("%w: %s, not a directory", thole.ErrInvalid, kind(d.Type()))
		case name == dir, err == nil && isTemp(d.Name()):
			return nil
		case err != nil:
			return nil // vanished or not readable: it was listed as a directory already
		case s.denies(name):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if len(list) == opts.Limit {
			more = true
			return fs.SkipAll
		}
		e := Entry{Path: name, Dir: d.IsDir(), Link: d.Type()&fs.ModeSymlink != 0}
		if fi, err := d.Info(); err == nil && d.Type().IsRegular() {
			e.Size = fi.Size()
		}
		list = append(list, e)
		if d.IsDir() && (slices.Contains(opts.Skip, d.Name()) || opts.Depth > 0 && depth(dir, name) >= opts.Depth) {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, false, fail("list", dir, err)
	}
	return list, more, nil
}

// Leftovers returns the paths of work files that a crash in the middle of a
// Replace or Create left behind (see [Sandbox.Replace]); to be called when
// nothing writes. Each holds either a content that was not put in place, or
// the one that was there before. They are never removed unasked: one may be a
// person's only copy of an edit.
func (s *Sandbox) Leftovers() ([]string, error) {
	var found []string
	err := fs.WalkDir(s.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && isTemp(path.Base(name)) {
			found = append(found, name)
		}
		return nil
	})
	if err != nil {
		return nil, fail("list", ".", err)
	}
	return found, nil
}

func depth(dir, name string) int {
	if dir != "." {
		name = strings.TrimPrefix(name, dir+"/")
	}
	return strings.Count(name, "/") + 1
}

// Lines tells of a listing, an entry a line.
func Lines(list []Entry, more bool) string {
	var b strings.Builder
	for _, e := range list {
		b.WriteString(e.Path)
		if e.Dir {
			b.WriteByte('/')
		}
		b.WriteByte('\n')
	}
	if more {
		b.WriteString("… and more\n")
	}
	return b.String()
}

// Excerpt returns limit lines of text from line offset on, 0 meaning no bound, and
// not much more than size bytes. It says what it leaves out.
func Excerpt(text string, offset, limit, size int) string {
	all := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	first := min(max(offset-1, 0), len(all))
	last := len(all)
	if limit > 0 {
		last = min(last, first+limit)
	}
	var b strings.Builder
	n := first
	for ; n < last && b.Len()+len(all[n]) <= size; n++ {
		b.WriteString(all[n])
	}
	if n == first && n < last { // one line too long to show
		b.WriteString(clip.Text(all[n], size))
		n++
	}
	if first > 0 || n < len(all) {
		fmt.Fprintf(&b, "\n[lines %d–%d of %d]", first+1, n, len(all))
	}
	return b.String()
}
