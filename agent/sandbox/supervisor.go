package sandbox

// Supervisor lets a Sandbox run commands under a supervisor process, which is
// this program started again. It can only be had from [Main], so that a
// program that does not call Main is never started twice.
type Supervisor struct{ name string }

// Main makes a program able to supervise commands. Call it first in main (and
// in TestMain), and pass on what it returns:
//
//	func main() {
//		supervisor := sandbox.Main()
//		…
//		sb, err := sandbox.Open(dir, &sandbox.Options{Supervisor: supervisor})
//
// In a process that was started as a supervisor it does not return. Where
// there is no supervision (not Linux) it returns nil, which is a valid value of
// Options.Supervisor.
func Main() *Supervisor { return supervisorMain() }
