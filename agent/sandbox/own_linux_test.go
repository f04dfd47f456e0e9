package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// What a killed program left in the directory for temporary files is removed when the
// next one starts; what a running program, or another user, has there stays.
func TestTheNextStartRemovesWhatAKilledProgramLeft(t *testing.T) {
	if landlockVersion() == 0 {
		t.Log("this kernel has no Landlock: there are no such directories")
		return
	}
	temp, elsewhere := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	left := func() (names []string) {
		dirs, err := filepath.Glob(filepath.Join(temp, "thole-sandbox-*"))
		must(t, err)
		for _, dir := range dirs {
			names = append(names, filepath.Base(dir))
		}
		return names
	}
	program := exec.Command("/proc/self/exe")
	program.Dir = t.TempDir()
	_, mark, _ := escapist()
	program.Env = append(os.Environ(), "SANDBOX_TEST_RUN=echo x >$HOME/f; mkdir $TMPDIR/d; sleep "+mark)
	must(t, program.Start())
	await(t, mark, 1)
	dead := left()
	if len(dead) != 1 {
		t.Fatalf("directories %v, want the program's", dead)
	}
	living := open(t, &Options{Supervisor: supervisor})
	want := left()
	if len(want) != 2 {
		t.Fatalf("directories %v, want that of the living program and this one's", want)
	}
	must(t, program.Process.Kill())
	program.Wait()
	await(t, mark, 0)

	must(t, os.WriteFile(filepath.Join(elsewhere, "lock"), nil, 0o600))
	must(t, os.Symlink(elsewhere, filepath.Join(temp, "thole-sandbox-link")))
	must(t, os.Mkdir(filepath.Join(temp, "thole-sandbox-old"), 0o700)) // left by a version without locks
	want = append(slices.DeleteFunc(want, func(name string) bool { return name == dead[0] }), "thole-sandbox-link", "thole-sandbox-old")
	if os.Geteuid() == 0 {
		theirs := filepath.Join(temp, "thole-sandbox-theirs")
		must(t, os.Mkdir(theirs, 0o700))
		must(t, os.WriteFile(filepath.Join(theirs, "lock"), nil, 0o600))
		must(t, os.Chown(theirs, 12345, 12345))
		want = append(want, "thole-sandbox-theirs")
	}
	next, err := Open(t.TempDir(), &Options{Supervisor: supervisor})
	must(t, err)
	must(t, next.Close()) // removes its own too
	got := left()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "lock")); err != nil {
		t.Error(err)
	}
	if _, err := living.Exec(t.Context(), "echo x >$HOME/f", nil); err != nil {
		t.Error(err)
	}
}
