//go:build !linux && !darwin && !freebsd

package filestore

// network returns "": this system has no way to detect a network file system.
func network(string) (string, error) { return "", nil }
