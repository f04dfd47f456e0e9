//go:build unix

package sqlitestore

import (
	"io/fs"
	"os"
	"syscall"
)

// chownLike gives f the owner of another file, as far as this process may: a file
// that root makes must not keep the owner of the database out.
func chownLike(f *os.File, like fs.FileInfo) {
	if sys, ok := like.Sys().(*syscall.Stat_t); ok {
		f.Chown(int(sys.Uid), int(sys.Gid))
	}
}
