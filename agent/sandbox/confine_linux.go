package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A confined command has these rights and no others (landlock(7), prctl(2)):
//
//	write  the project, and a home and a temporary directory of the sandbox's own
//	read   programs and libraries, what of /etc and of /proc/* concerns the whole system
//	none   other files, /proc/PID, the memory and signals of processes outside,
//	       abstract sockets outside, setuid programs, most capabilities of root,
//	       limits, priorities and processors of processes outside, keys (see refuse)
//
// The network and sockets in the file system are not restricted. Neither are mode,
// times and extended attributes of files elsewhere that belong to the command's user:
// Landlock does not guard them (chmod, utimes, setxattr).

const (
	readAccess = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileAccess = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockVersion returns the version of Landlock that the kernel has; 0: none.
func landlockVersion() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// systemPaths are what commands may read besides the directories of PATH.
func systemPaths() []string {
	paths := []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/snap",
		"/sys/devices/system/cpu", "/sys/fs/cgroup",
		"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/uptime", "/proc/loadavg", "/proc/version",
		"/proc/filesystems", "/proc/sys",
	}
	home, _ := os.UserHomeDir()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) && !contains(dir, home) {
			paths = append(paths, dir)
		}
	}
	// Root may read all of /etc, such as the file with the server's password.
	return append(paths, public("/etc")...)
}

// public returns what everyone may read in and below dir: directories in which that
// is everything, and files. Links to files are followed, links to directories are not.
func public(dir string) []string {
	found, linked, _ := publicIn(dir)
	return append(found, linked...)
}

// publicIn is public, with the files that links lead to apart, and reports whether
// everything may be read.
func publicIn(dir string) (found, linked []string, all bool) {
	entries, err := os.ReadDir(dir)
	all = err == nil
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		link := e.Type()&fs.ModeSymlink != 0
		fi, err := os.Stat(path)
		switch {
		case link && (err != nil || fi.IsDir() || fi.Mode().Perm()&0o004 == 0):
		case link:
			linked = append(linked, path)
		case err != nil || fi.Mode().Perm()&0o004 == 0 || fi.IsDir() && fi.Mode().Perm()&0o001 == 0:
			all = false
		case fi.IsDir():
			below, more, whole := publicIn(path)
			if linked, all = append(linked, more...), all && whole; whole {
				below = []string{path}
			}
			found = append(found, below...)
		default:
			found = append(found, path)
		}
	}
	return found, linked, all
}

// devices are what commands may read and write beyond files. Terminals are not
// among them: other people type there.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// restrict confines the calling thread, and all that it starts from now on.
func (c *confinement) restrict() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := dropCapabilities(c.Foreign); err != nil {
		return err
	}
	if !c.Landlock {
		return nil
	}
	if err := refuse(); err != nil {
		return err
	}
	version := landlockVersion()
	handled := uint64(1<<13 - 1)
	attr := unix.LandlockRulesetAttr{}
	size := uintptr(24)
	switch {
	case version >= 6:
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	case version >= 4:
		size = 16
	default:
		size = 8
	}
	if version >= 2 {
		handled |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		handled |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 5 {
		handled |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	attr.Handled_access_fs = handled
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	defer unix.Close(int(fd))
	for _, rule := range []struct {
		paths  []string
		access uint64
	}{{c.Read, readAccess}, {c.Write, handled}} {
		for _, path := range rule.paths {
			if err := allow(int(fd), path, rule.access&handled); err != nil {
				return err
			}
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}

// allow adds a rule for what is below path; a path that does not exist has none.
func allow(ruleset int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("landlock %s: %w", path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("landlock %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= fileAccess
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("landlock %s: %w", path, errno)
	}
	return nil
}

// dropCapabilities leaves a command of root what it needs for ports, and in a foreign
// project, one of another user, for that one's files.
// What it loses, ptrace above all, it would need to look into this process.
func dropCapabilities(foreign bool) error {
	keep := map[uintptr]bool{
		unix.CAP_CHOWN: foreign, unix.CAP_DAC_OVERRIDE: foreign, unix.CAP_FOWNER: foreign, unix.CAP_NET_BIND_SERVICE: true,
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if keep[c] {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EPERM {
			return nil // not root: there are none to drop
		}
		if err != nil && err != unix.EINVAL { // one that this kernel does not know
			return fmt.Errorf("drop capabilities: %w", err)
		}
	}
	return nil
}

// contains reports whether path is dir or below it, links followed.
func contains(dir, path string) bool {
	for _, p := range []*string{&dir, &path} {
		if real, err := filepath.EvalSymlinks(*p); err == nil {
			*p = real
		}
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// foreign reports whether dir belongs to another user than this process.
func foreign(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && int(st.Uid) != os.Geteuid()
}

// harden closes this process to others of the same user: its environment,
// memory and files in /proc, ptrace, and core dumps. Files that were open when it
// started, such as a shell's, are not for what it starts (Linux 5.11). Passwords on
// its command line, which everyone may read, are overwritten.
func harden() {
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // cannot fail for 0
	for i, arg := range os.Args {
		secret := password(arg)
		if secret == "" {
			continue
		}
		// os.Args shares the memory that the kernel shows in /proc/PID/cmdline.
		shown := unsafe.Slice(unsafe.StringData(arg), len(arg))
		os.Args[i] = strings.Clone(arg)
		at := strings.LastIndex(os.Args[i], secret)
		for j := at; j < at+len(secret); j++ {
			shown[j] = '*'
		}
	}
}
