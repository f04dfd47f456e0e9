package faultfs

import (
	"errors"
	"io"
	"maps"
	"syscall"
)

// Kind is a kind of fault.
type Kind string

// The kinds.
const (
	ShortWrite  Kind = "short write"  // a part is written
	NoSpace     Kind = "no space"     // ENOSPC: a part is written, or nothing is created
	WriteError  Kind = "write error"  // EIO: a part is written
	ReadError   Kind = "read error"   // EIO
	SyncError   Kind = "sync failure" // EIO: pending writes may never become durable
	DeleteError Kind = "delete error" // EIO: a file or directory stays
	CutError    Kind = "cut error"    // EIO: a file keeps its size
	RenameError Kind = "rename error" // EIO: a file keeps its name
	Killed      Kind = "kill"         // from now on, every operation of one Process fails
	PowerLoss   Kind = "crash"        // from now on, every operation fails; continue with Crash
)

// ErrCrashed is the error of every operation after a crash.
var ErrCrashed = errors.New("the machine has crashed")

// Faults says how often each kind of fault occurs: in one of that many operations that
// can fail this way; zero: never.
type Faults map[Kind]int

// faults is the schedule of a file system. Its mu guards it.
type faults struct {
	rates  Faults
	counts map[Kind]int
	dead   bool // crashed: everything fails
	gone   bool // crashed before this operation: it does nothing
}

// Fail sets the rates of faults from now on; nil: no faults.
func (f *FS) Fail(rates Faults) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rates = maps.Clone(rates)
}

// Counts returns how many faults occurred, in this file system and in those that it is
// the remains of.
func (f *FS) Counts() map[Kind]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.counts)
}

// operation is a kind of operation that a fault can affect.
type operation int

const (
	onOpen operation = iota // or anything else about names
	onDelete
	onRename
	onCut
	onRead
	onWrite
	onSync
)

// kinds returns the faults that can affect an operation.
func (o operation) kinds(grows bool) []Kind {
	kinds := []Kind{PowerLoss}
	switch {
	case o == onRead:
		kinds = append(kinds, ReadError)
	case o == onWrite:
		kinds = append(kinds, ShortWrite, NoSpace, WriteError)
	case o == onSync:
		kinds = append(kinds, SyncError)
	case o == onDelete:
		kinds = append(kinds, DeleteError)
	case o == onCut:
		kinds = append(kinds, CutError)
	case o == onRename:
		kinds = append(kinds, RenameError, NoSpace)
	case grows:
		kinds = append(kinds, NoSpace)
	}
	return kinds
}

// fault decides whether an operation fails, and how. The caller holds mu.
func (f *FS) fault(o operation, grows bool) error {
	f.gone = f.dead
	if f.dead {
		return ErrCrashed
	}
	for _, k := range o.kinds(grows) {
		if n := f.rates[k]; n == 0 || f.rand.IntN(n) != 0 {
			continue
		}
		f.counts[k]++
		return f.strike(k)
	}
	return nil
}

func (f *FS) strike(k Kind) error {
	switch k {
	case ShortWrite:
		return io.ErrShortWrite
	case NoSpace:
		return syscall.ENOSPC
	case PowerLoss:
		f.dead = true
		return ErrCrashed
	default:
		return syscall.EIO
	}
}

// Crashed reports whether the machine has crashed.
func (f *FS) Crashed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}
