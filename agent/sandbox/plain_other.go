//go:build !linux

package sandbox

func supervisorMain() *Supervisor   { return nil }
func start(sp spec) (*child, error) { return startPlain(sp) }
