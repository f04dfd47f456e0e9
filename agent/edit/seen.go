package edit

import (
	"slices"
	"sync"
	"time"

	"github.com/thole-dev/thole/agent/sandbox"
)

// lastWords is how long it may take to record what has happened.
const lastWords = 10 * time.Second

// views are the files that an author has seen.
type views struct{ m sync.Map } // path → sandbox.View

func (v *views) Load(path string) (sandbox.View, bool) {
	seen, ok := v.m.Load(path)
	if !ok {
		return sandbox.View{}, false
	}
	return seen.(sandbox.View), true
}

func (v *views) Store(path string, seen sandbox.View) { v.m.Store(path, seen) }
func (v *views) Delete(path string)                   { v.m.Delete(path) }

// Touched are the files that editors read or changed together. The zero value is
// ready for use, and safe for concurrent use.
type Touched struct {
	mu      sync.Mutex
	files   []string // in the order of their first touch
	changed bool     // since the last Done
}

func (t *Touched) add(path string, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = t.changed || changed
	if !slices.Contains(t.files, path) {
		t.files = append(t.files, path)
	}
}

// Files returns them in the order of their first touch.
func (t *Touched) Files() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.files)
}

// Done reports whether one was changed since the last Done.
func (t *Touched) Done() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := t.changed
	t.changed = false
	return changed
}
