package sqlitestore_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
)

// platter is a disk that may fail and lose power. Programs see the files of a real
// directory, as they would see the page cache. For each file it also remembers what is
// certainly on the disk, and the changes since, in order:
//
//	durable ── unsynced ── unsynced ── unsynced     what programs see
//	   └─ power loss leaves this, with any of the others, in part or whole
//
// The same holds for the names in the directory.
type platter struct {
	dir string

	mu      sync.Mutex
	rand    *rand.Rand
	names   map[string]*inode // as programs see them
	synced  map[string]*inode // as they certainly are on the disk
	renamed []entry           // changes of names since
	lies    lie
	faults

	process int               // files that an earlier process opened are dead
	off     bool              // power is lost: everything fails
	left    map[string][]byte // the files after the power loss
}

// inode is a file without its name.
type inode struct {
	durable  []byte
	unsynced []change
	sectors  int  // the size of a sector; the disk writes whole sectors
	log      bool // is the write-ahead log
	failed   int  // how many syncs failed
}

// change is a write, or a truncation to off.
type change struct {
	off      int64
	data     []byte
	truncate bool
}

// entry is a change of a name; a nil inode removes it.
type entry struct {
	name string
	*inode
}

// lie is how a disk deceives. A good checker detects each lie.
type lie int

const (
	honest       lie = iota
	syncsNothing     // reports every sync as done and does nothing
	syncsNoLog       // the same for the write-ahead log only
	syncsNoData      // the same for the database only
	writesLess       // reports a short write as done
	mixesUp          // returns another page than was asked for
)

// newPlatter returns a disk whose directory dir has the files, all of them durable.
func newPlatter(dir string, files map[string][]byte, r *rand.Rand) (*platter, error) {
	p := &platter{dir: dir, rand: r, names: map[string]*inode{}, synced: map[string]*inode{}}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, err
		}
		p.names[name] = p.newInode(name)
		p.names[name].durable = slices.Clone(data)
		p.synced[name] = p.names[name]
	}
	return p, nil
}

func (p *platter) newInode(name string) *inode {
	return &inode{sectors: 512 << (3 * p.rand.IntN(2)), log: filepath.Ext(name) == ".db-wal"}
}

// kill ends the processes that use the disk: what they do from now on has no effect;
// what they did before stays.
func (p *platter) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.process++
}

// powerLoss stops the disk and returns what is left on it: everything synced, and a
// random part of the rest. Shared memory is gone.
func (p *platter) powerLoss() map[string][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losePower()
	return p.left
}

// losePower is powerLoss; the caller holds p.mu.
func (p *platter) losePower() {
	if p.off {
		return
	}
	p.off, p.left = true, map[string][]byte{}
	names := maps.Clone(p.synced)
	keep := p.luck()
	for _, e := range p.renamed {
		switch {
		case p.rand.Float64() >= keep:
		case e.inode == nil:
			delete(names, e.name)
		default:
			names[e.name] = e.inode
		}
	}
	for name, n := range names {
		p.left[name] = n.survivors(p.rand, p.luck())
	}
}

// luck returns the probability that a change survives.
func (p *platter) luck() float64 {
	return []float64{0, 0.2, 0.5, 0.9, 1}[p.rand.IntN(5)]
}

// survivors returns what the disk has of a file if each change since the last sync
// survives with probability keep, a write by whole sectors.
func (n *inode) survivors(r *rand.Rand, keep float64) []byte {
	out := slices.Clone(n.durable)
	for _, c := range n.unsynced {
		torn := r.IntN(2) == 0
		whole := r.Float64() < keep
		switch {
		case c.truncate && whole:
			out = resize(out, c.off)
		case c.truncate:
		case !torn && whole:
			out = overwrite(out, c.off, c.data)
		case torn:
			for len(c.data) > 0 {
				size := min(n.sectors-int(c.off)%n.sectors, len(c.data))
				if r.Float64() < keep {
					out = overwrite(out, c.off, c.data[:size])
				}
				c.off, c.data = c.off+int64(size), c.data[size:]
			}
			if end := c.off; end > int64(len(out)) && r.Float64() < keep { // the file grew, but the data is missing
				out = resize(out, end)
			}
		}
	}
	return out
}

func (n *inode) note(c change) { n.unsynced = append(n.unsynced, c) }

// sync makes the changes of n durable. A failed sync makes only some of them durable,
// and the page cache takes the rest for written, as in Linux: only writing them again
// brings them to the disk.
func (p *platter) sync(n *inode, failed bool) {
	if p.lies == syncsNothing || p.lies == syncsNoLog && n.log || p.lies == syncsNoData && !n.log {
		return
	}
	if failed {
		n.durable, n.unsynced = n.survivors(p.rand, p.luck()), nil
		return
	}
	for _, c := range n.unsynced {
		if c.truncate {
			n.durable = resize(n.durable, c.off)
		} else {
			n.durable = overwrite(n.durable, c.off, c.data)
		}
	}
	n.unsynced = nil
}

func (p *platter) syncNames() { p.synced, p.renamed = maps.Clone(p.names), nil }

func resize(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

func overwrite(b []byte, off int64, data []byte) []byte {
	if end := off + int64(len(data)); end > int64(len(b)) {
		b = resize(b, end)
	}
	copy(b[off:], data)
	return b
}

// errOff is the error of everything after power loss.
const errOff = syscall.EIO
