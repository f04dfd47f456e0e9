// Package effort says how much the tests do. Only it reads the environment
// variables that choose:
//
//	THOLE_TEST   stores                                              set by
//	(not set)    memory, SQLite, files, a server on SQLite           go test ./...
//	few          memory, a server on SQLite                          make race
//	all          memory, SQLite, files, PostgreSQL                   make matrix, make faults
//
// THOLE_SOAK=1 asks for the long forms beside that, and with all also for pgbouncer
// and for servers on SQLite and PostgreSQL. `make soak` sets both.
package effort

import (
	"fmt"
	"os"
	"testing"
)

// Stores is a choice of stores to test on.
type Stores string

// The choices; [All] needs programs beside Go, and fails where they are missing.
const (
	Embedded Stores = ""
	Few      Stores = "few"
	All      Stores = "all"
)

// On returns the stores to test on. It panics if THOLE_TEST is none of them, so
// that nobody believes in tests that did not run.
func On() Stores {
	switch s := Stores(os.Getenv("THOLE_TEST")); s {
	case Embedded, Few, All:
		return s
	default:
		panic(fmt.Sprintf("THOLE_TEST=%s: want nothing, %q or %q", s, Few, All))
	}
}

// Soak reports whether tests take their long form.
func Soak() bool {
	switch s := os.Getenv("THOLE_SOAK"); s {
	case "", "0":
		return false
	case "1":
		return true
	default:
		panic(fmt.Sprintf("THOLE_SOAK=%s: want 1 or nothing", s))
	}
}

// Amount returns how much of something a test does: quick where the stores are
// not [All], as in a plain go test, else usual, and long with THOLE_SOAK=1. Under
// the race detector, which is many times slower, usual is the most.
func Amount[T any](quick, usual, long T) T {
	switch {
	case Soak() && !Race:
		return long
	case Soak() || On() == All:
		return usual
	}
	return quick
}

// SlowUnderRace skips a test which takes long under the race detector, and has
// little for it to find: it runs without it, and under it with THOLE_SOAK=1.
func SlowUnderRace(t testing.TB) {
	t.Helper()
	if Race && !Soak() {
		t.Skip("runs without the race detector; under it with THOLE_SOAK=1")
	}
}

// SoakOnly skips a test whose promise other tests check in a shorter way.
func SoakOnly(t testing.TB) {
	t.Helper()
	if !Soak() {
		t.Skip("runs with THOLE_SOAK=1")
	}
}
