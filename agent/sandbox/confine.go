package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// confinement is what commands may reach. It is handed to the supervisor, which
// puts it on before it starts the shell.
type confinement struct {
	Landlock bool     `json:"landlock"`
	Read     []string `json:"read,omitempty"`    // absolute: what is below may be read and executed
	Write    []string `json:"write,omitempty"`   // absolute: and changed
	Foreign  bool     `json:"foreign,omitempty"` // the directory belongs to another user

	version int // of Landlock
}

// confine works out the confinement of s's commands, and makes their home and
// temporary directories. Those that killed processes left it removes.
func (s *Sandbox) confine() error {
	version := landlockVersion()
	if s.o.Supervisor == nil || s.o.Unconfined || version == 0 {
		return nil
	}
	removeLeft()
	var err error
	if s.own, s.ownLock, err = makeOwn(); err != nil {
		return err
	}
	home, tmp := filepath.Join(s.own, "home"), filepath.Join(s.own, "tmp")
	s.confined = confinement{
		Landlock: true,
		version:  version,
		Foreign:  foreign(s.dir),
		Read:     slices.Concat(systemPaths(), s.o.Read),
		Write:    slices.Concat([]string{s.dir, home, tmp}, devices, s.o.Write),
	}
	s.o.Env = append(slices.Clip(s.o.Env), "HOME="+home, "TMPDIR="+tmp)
	return nil
}

// Confined says in a sentence what commands may reach: for a person who is about
// to let a model run them.
func (s *Sandbox) Confined() string {
	if len(s.denied) == 0 {
		return s.reach()
	}
	return s.reach() + " The store of this server lies in the project: commands can read and change the store, and so give themselves every right on it. Keep it elsewhere with --store."
}

func (s *Sandbox) reach() string {
	if s.confined.Landlock {
		elsewhere := ""
		if len(s.o.Read) > 0 {
			elsewhere = " but " + strings.Join(s.o.Read, ", ")
		}
		return "Bash may write in " + strings.Join(append([]string{s.dir}, s.o.Write...), ", ") + " only, a store there included, and reads no files of yours elsewhere" +
			elsewhere + "; the network is open to it, servers on this machine included (Landlock)." + s.modes() + s.gaps()
	}
	reason := "this kernel has no Landlock"
	switch {
	case s.o.Unconfined:
		reason = "so it was asked for"
	case s.o.Supervisor == nil:
		reason = "there is no supervisor for commands here"
	}
	return "Bash has the rights of this process: it reads and changes whatever you may (" + reason + ")."
}

// modes says what no version of Landlock closes.
func (s *Sandbox) modes() string {
	if s.confined.Foreign && os.Geteuid() == 0 {
		return " It can also change modes, owners and times of all files on this machine, and so open those of the server to other users."
	}
	return " It can also change modes and times of your files elsewhere, and so open them to other users of this machine; those of the server too, its store included."
}

// gaps says what the kernel's version of Landlock does not close.
func (s *Sandbox) gaps() string {
	switch v := s.confined.version; {
	case v < 3:
		return fmt.Sprintf(" The Landlock of this kernel (version %d of at least 6) is old: Bash can also empty files elsewhere that you may change, signal your other processes, and end this one.", v)
	case v < 6:
		return fmt.Sprintf(" The Landlock of this kernel (version %d of at least 6) is old: Bash can also signal your other processes, and end this one.", v)
	}
	return ""
}

// passed are the variables of this process that commands get; LC_* as well.
var passed = []string{"PATH", "HOME", "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "TMPDIR", "USER", "LOGNAME", "SHELL", "TZ"}

// commandEnv is what of env commands get: [passed] and the variables named more.
func commandEnv(env, more []string) []string {
	kept := make([]string, 0, len(env))
	for _, kv := range env {
		key, _, _ := strings.Cut(kv, "=")
		if slices.Contains(passed, key) || strings.HasPrefix(key, "LC_") || slices.Contains(more, key) {
			kept = append(kept, kv)
		}
	}
	return kept
}

// password returns the password in a URL such as postgres://user:password@host,
// or in its query; empty if there is none.
func password(arg string) string {
	if _, query, ok := strings.Cut(arg, "password="); ok {
		secret, _, _ := strings.Cut(query, "&")
		return secret
	}
	_, rest, ok := strings.Cut(arg, "://")
	if !ok {
		return ""
	}
	end := strings.LastIndex(rest, "@")
	begin := strings.Index(rest, ":")
	if begin < 0 || end < begin {
		return ""
	}
	return rest[begin+1 : end]
}
