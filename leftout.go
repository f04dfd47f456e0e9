package thole

import (
	"errors"
	"sync"
)

// LeavesOut reports whether a list in sp leaves out rec, which it read and could not
// decode because of err: only if err is ErrCorrupt, so that one bad record hides no
// other. It logs the first time that a version of a record is left out. A read of the
// record itself returns err, and so does whatever decides by the list: what it cannot
// see, it would take for absent.
func (sp *Space) LeavesOut(rec Record, err error) bool {
	if !errors.Is(err, ErrCorrupt) {
		return false
	}
	if sp.store.leftOut.first(recordName{sp.name, rec.Key}, rec.Version) {
		sp.store.log.Warn("lists leave out a record that cannot be read", "space", sp.name, "key", rec.Key, "version", rec.Version, "error", err)
	}
	return true
}

// leftOut remembers which versions of records lists have left out.
type leftOut struct {
	mu   sync.Mutex
	seen map[recordName]Position
}

// maxLeftOut bounds the memory. Once it is reached, records are logged again.
const maxLeftOut = 1024

// first reports whether this version of the record was not left out before.
func (l *leftOut) first(name recordName, version Position) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.seen[name]; ok && at == version {
		return false
	}
	if l.seen == nil || len(l.seen) >= maxLeftOut {
		l.seen = make(map[recordName]Position)
	}
	l.seen[name] = version
	return true
}
