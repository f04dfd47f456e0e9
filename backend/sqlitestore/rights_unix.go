//go:build unix

package sqlitestore

import (
	"io/fs"
	"os"
	"syscall"
)

// chownLike gives f the owner of another file, if this process may do so: the owner of
// the database must be able to use a file that root creates.
func chownLike(f *os.File, like fs.FileInfo) {
	if sys, ok := like.Sys().(*syscall.Stat_t); ok {
		f.Chown(int(sys.Uid), int(sys.Gid))
	}
}
