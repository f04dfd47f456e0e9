package servertest

import "golang.org/x/sys/unix"

// FailWrites makes each write of the process fail that would extend a file beyond size,
// with an error that does not mean a full disk. Earlier writes stay.
func (s *Server) FailWrites(size uint64) {
	s.T.Helper()
	limit := unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		s.T.Fatalf("limit the files of the server: %v", err)
	}
}
