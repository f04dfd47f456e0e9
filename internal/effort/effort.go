// Package effort determines how much the tests do. Only this package reads the
// environment variable that selects it:
//
//	THOLE_TEST   amounts   needs                            set by
//	(not set)    quick     only Go                          go test ./...
//	all          usual     PostgreSQL, pgbouncer, git, …    make test
//	soak         long      the same, and hours              make soak
//
// Under the race detector, which is many times slower, all amounts are quick, and
// soak makes them usual.
package effort

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// level is a value of THOLE_TEST, in the order of what it asks for.
type level int

const (
	quick level = iota
	all
	soak
)

// asked returns the level that the environment selects. It panics on an unknown value,
// so that nobody relies on tests that did not run.
func asked() level {
	switch text := os.Getenv("THOLE_TEST"); text {
	case "":
		return quick
	case "all":
		return all
	case "soak":
		return soak
	default:
		panic(fmt.Sprintf("THOLE_TEST=%s: want nothing, all or soak", text))
	}
}

// All reports whether tests run that need more than Go, such as a database server. If
// they run, a missing program fails them.
func All() bool { return asked() >= all }

// Soak reports whether tests take their long form.
func Soak() bool { return asked() == soak }

// Amount returns how much of something a test does.
func Amount[T any](quick, usual, long T) T {
	n := asked()
	if Race {
		n--
	}
	switch {
	case n >= soak:
		return long
	case n >= all:
		return usual
	}
	return quick
}

// AllOnly skips a test that takes long, or needs more than Go, in a plain go test.
func AllOnly(t testing.TB) {
	t.Helper()
	if !All() {
		t.Skip("runs with THOLE_TEST=all, as in make test")
	}
}

// SoakOnly skips a test whose promise other tests check in a shorter way.
func SoakOnly(t testing.TB) {
	t.Helper()
	if !Soak() {
		t.Skip("runs with THOLE_TEST=soak, as in make soak")
	}
}

// SlowUnderRace skips, under the race detector, a test that takes long there and has
// few races to find. The test runs without the race detector, and with it in make soak.
func SlowUnderRace(t testing.TB) {
	t.Helper()
	if Race && !Soak() {
		t.Skip("runs without the race detector; under it with THOLE_TEST=soak")
	}
}

// Program skips a test where the program that it needs is not installed, or fails
// it if all tests must run.
func Program(t testing.TB, name string) {
	t.Helper()
	switch _, err := exec.LookPath(name); {
	case err != nil && All():
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	}
}
