//go:build darwin || freebsd

package filestore

import "golang.org/x/sys/unix"

// network returns "network" if dir is on a network file system, "" for a local one.
func network(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", err
	}
	if uint64(st.Flags)&unix.MNT_LOCAL == 0 {
		return "network", nil
	}
	return "", nil
}
