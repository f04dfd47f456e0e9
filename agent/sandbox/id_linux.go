package sandbox

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// directoryID says which directory root is. Its inode and time of birth stay when
// it is moved, when the machine starts again, and when its disk gets another number.
func directoryID(root *os.Root, _ string) (string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return "", err
	}
	defer dir.Close()
	var st unix.Statx_t
	if err := unix.Statx(int(dir.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return "", err
	}
	machine, _ := os.ReadFile("/etc/machine-id") // a container may have none
	id := fmt.Sprintf("%s %d", strings.TrimSpace(string(machine)), st.Ino)
	if st.Mask&unix.STATX_BTIME == 0 {
		return id + fmt.Sprintf(" on %d:%d", st.Dev_major, st.Dev_minor), nil
	}
	return id + fmt.Sprintf(" of %d.%d", st.Btime.Sec, st.Btime.Nsec), nil
}
