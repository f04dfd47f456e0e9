package statetest

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// matrix counts the promises that were tested on each backend. There is one per test
// process.
var matrix struct {
	sync.Mutex
	ran map[string]int
}

// count counts the test when it ends, unless it was skipped.
func count(t testing.TB, backend string) {
	t.Cleanup(func() {
		if t.Skipped() {
			return
		}
		matrix.Lock()
		defer matrix.Unlock()
		if matrix.ran == nil {
			matrix.ran = make(map[string]int)
		}
		matrix.ran[backend]++
	})
}

// Main is the TestMain of a package whose tests use Each. It prints how many tests ran
// on each backend, in a line that begins with "matrix:". If all tests ran, the package
// fails if fewer ran on one of the backends than in memory. It also fails if a
// goroutine is left.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if !report() && code == 0 {
			code = 1
		}
		os.Exit(code)
	}))
}

// report prints the matrix and reports whether it is full.
func report() bool {
	full := true
	var row []string
	for _, b := range backends() {
		n := matrix.ran[b.name]
		row = append(row, fmt.Sprintf("%s %d", b.name, n))
		full = full && n == matrix.ran["mem"]
	}
	fmt.Printf("matrix: %s: %s\n", pkg(), strings.Join(row, ", "))
	if full || selected() {
		return true
	}
	fmt.Println("matrix: not every test ran on every backend")
	return false
}

// selected reports whether -run selects tests.
func selected() bool {
	return flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.skip").Value.String() != "" ||
		flag.Lookup("test.list").Value.String() != "" || flag.Lookup("test.failfast").Value.String() == "true"
}

// pkg is the path of the package under test within the module.
func pkg() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return os.Args[0]
	}
	return strings.TrimSuffix(strings.TrimPrefix(info.Path, info.Main.Path+"/"), ".test")
}
