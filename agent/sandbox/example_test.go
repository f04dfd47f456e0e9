package sandbox_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/thole-dev/thole/agent/sandbox"
)

// A program changes a file that somebody else has changed since it was read, and runs a
// command in its directory.
func Example() {
	dir, err := os.MkdirTemp("", "project")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	sb, err := sandbox.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Close()
	hash, err := sb.Create("poem.txt", []byte("one\ntwo\nthree\nfour\n"), nil)
	if err != nil {
		log.Fatal(err)
	}
	read := sandbox.View{Hash: hash, Content: "one\ntwo\nthree\nfour\n"}

	if _, err := sb.Replace("poem.txt", hash, []byte("one\ntwo\nthree\nFOUR\n"), nil); err != nil {
		log.Fatal(err)
	}
	m, err := sb.Merge("poem.txt", &read, sandbox.Substitute("one", "ONE", false), false)
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Apply(nil); err != nil {
		log.Fatal(err)
	}
	res, err := sb.Exec(context.Background(), "cat poem.txt", nil)
	fmt.Print(res.Output, res.ExitCode, err)
	// Output:
	// ONE
	// two
	// three
	// FOUR
	// 0 <nil>
}
