package main_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/thole-dev/thole/internal/servertest"
)

// The tests of this package drive the built program from outside, over HTTP and its
// command line, as any other program would.

func TestMain(m *testing.M) {
	for variable, process := range map[string]func(string) error{loadVariable: runLoad, holderVariable: runHolder} {
		if what, ok := os.LookupEnv(variable); ok {
			if err := process(what); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	servertest.Main(m)
}
